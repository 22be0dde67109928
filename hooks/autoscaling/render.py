"""The ScaledObject, a literal shaped like its YAML."""

from hooks.api.llmservice import Scaling
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.names import ServiceName
from hooks.llmservice.render.program import SCALER_PORT

SCALED_OBJECTS = "ScaledObject.keda.sh/v1alpha1"

# In the trigger's metadata, where KEDA hands it on to the scaler, which does not look at it.
AVAILABLE_SINCE = "availableSince"

# Beside it: how often KEDA was to look once more since then.
ASKED_AGAIN = "askedAgain"

# Of a trigger: KEDA's object that holds its certificate.
_AUTHENTICATION = "authenticationRef"

# A request that the push stream loses waits this long for KEDA's next look.
_POLLING_SECONDS = 10


def scaled_object(
    service: ServiceName, namespace: str, scaling: Scaling, *, available_since: str
) -> Object:
    """The service's ScaledObject.

    ``available_since`` changes with each outage of the scaler that is over: KEDA backs off up to
    1000 s from a scaler that it cannot reach, and a changed spec makes it look again at once.
    `restoreToOriginalReplicaCount` is left out, though false is meant: KEDA's own writes drop a
    false there, and we would put it back, which restarts its stream.
    """
    stabilization = int(scaling.scale_down_stabilization)
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "labels": {
                **names.labels(service, "scaler"),
                "scaledobject.keda.sh/name": names.scaled_object(service),
            },
            "name": names.scaled_object(service),
            "namespace": namespace,
        },
        "spec": {
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": stabilization}}
                }
            },
            "cooldownPeriod": stabilization,
            "initialCooldownPeriod": stabilization,
            "maxReplicaCount": scaling.max,
            "minReplicaCount": scaling.min,
            "pollingInterval": _POLLING_SECONDS,
            "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": names.backend(service),
            },
            "triggers": [
                {
                    **_authentication(scaling),
                    "metadata": {
                        AVAILABLE_SINCE: available_since,
                        "scalerAddress": f"{names.scaler(service)}.{namespace}.svc:{SCALER_PORT}",
                        "target": str(scaling.target),
                    },
                    "type": "external-push",
                }
            ],
        },
    }


def _authentication(scaling: Scaling) -> Object:
    """Where KEDA finds its certificate; with one it speaks TLS, and needs no other word."""
    tls = None if scaling.external_scaler is None else scaling.external_scaler.tls
    if tls is None:
        return {}
    reference = tls.authentication_ref
    return {_AUTHENTICATION: {"kind": reference.kind, "name": reference.name}}


def with_authentication_of(scaled_object: Object, other: Object) -> Object:
    """``scaled_object``, but KEDA shows the certificate that it shows for ``other``, or none."""
    shown = {
        key: reference
        for trigger in objects.items(other, "spec", "triggers")
        for key, reference in trigger.items()
        if key == _AUTHENTICATION
    }
    triggers = [
        {key: value for key, value in trigger.items() if key != _AUTHENTICATION} | shown
        for trigger in objects.items(scaled_object, "spec", "triggers")
    ]
    return {**scaled_object, "spec": {**scaled_object["spec"], "triggers": triggers}}


# Of KEDA's: nothing starts the first replica, and everything else goes on.
PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"


def with_pause(scaled_object: Object, *, paused: bool) -> Object:
    """``scaled_object`` with KEDA's pause of the start from zero, or without ours."""
    metadata = objects.mapping(scaled_object, "metadata")
    annotations = {
        key: value
        for key, value in objects.mapping(metadata, "annotations").items()
        if key != PAUSED_SCALE_OUT
    }
    if paused:
        annotations[PAUSED_SCALE_OUT] = "true"
    bare = {key: value for key, value in metadata.items() if key != "annotations"}
    return {
        **scaled_object,
        "metadata": bare | ({"annotations": annotations} if annotations else {}),
    }


def with_looks(scaled_object: Object, available_since: str, asked_again: int) -> Object:
    """``scaled_object`` as it is, but for the time since which the scaler is available, and how
    often KEDA is to have looked once more since then: either change makes it look."""
    looks = {AVAILABLE_SINCE: available_since}
    looks |= {ASKED_AGAIN: str(asked_again)} if asked_again else {}
    triggers = [
        {**trigger, "metadata": {k: v for k, v in metadata.items() if k != ASKED_AGAIN} | looks}
        if AVAILABLE_SINCE in (metadata := objects.mapping(trigger, "metadata"))
        else trigger
        for trigger in objects.items(scaled_object, "spec", "triggers")
    ]
    if not triggers:
        return scaled_object
    return {**scaled_object, "spec": {**scaled_object["spec"], "triggers": triggers}}


def asked_again(scaled_object: Object, available_since: str) -> int:
    """How often KEDA was to look once more since the scaler is available."""
    for trigger in objects.items(scaled_object, "spec", "triggers"):
        metadata = objects.mapping(trigger, "metadata")
        if metadata.get(AVAILABLE_SINCE) == available_since:
            return _LOOKS.get(objects.text(metadata, ASKED_AGAIN), 0)
    return 0


# Anything else was written by somebody else.
_LOOKS = {"1": 1, "2": 2}
