"""The ScaledObject, a literal shaped like its YAML."""

from hooks.api.llmservice import Scaling
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.names import ServiceName
from hooks.llmservice.render.gateway import SCALER_PORT

SCALED_OBJECTS = "ScaledObject.keda.sh/v1alpha1"

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
                    "metadata": {
                        "availableSince": available_since,
                        "scalerAddress": f"{names.scaler(service)}.{namespace}.svc:{SCALER_PORT}",
                        "target": str(scaling.target),
                    },
                    "type": "external-push",
                }
            ],
        },
    }
