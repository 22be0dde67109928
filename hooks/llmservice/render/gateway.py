"""The gateways' Deployment, the Service that leads to them, and what keeps one of several up."""

import math
from decimal import Decimal

from hooks.k8s import duration, objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import ApiKey, Plan
from hooks.llmservice.render import program

# How long held requests may go on after SIGTERM, and what the Pod needs beyond that.
_LEAST_SHUTDOWN_SECONDS = 60
_GRACE_BEYOND_SHUTDOWN_SECONDS = 15

# The flag of gateways that leave KEDA to the aggregate scaler.
MEMBER = "--member"

_API_KEY_FOLDER = "/etc/noctaya/api-key"
_API_KEY_FILE = "key"


def deployment(plan: Plan) -> Object:
    """The gateways' Deployment."""
    replicas = plan.gateway.formation.gateways
    name = names.gateway(plan.service)
    return program.deployment(plan, name, "gateway", replicas=replicas, pod=_pod(plan))


def endpoint_service(plan: Plan) -> Object:
    """What clients use."""
    port = {"name": "http", "port": 80, "targetPort": "http"}
    name = names.endpoint(plan.service)
    return program.service(plan, name, "gateway", pods="gateway", port=port)


def disruption_budget(plan: Plan) -> Object:
    """Of several gateways, one at a time may be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": program.metadata(plan, names.gateway(plan.service), "gateway"),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.selector(plan.service, "gateway")},
        },
    }


def arguments(plan: Plan) -> list[str]:
    """The gateway's flags. What comes from the spec is always given, in this order."""
    spec, gateway, port = plan.spec, plan.gateway, plan.engine.port
    flags: list[tuple[str, str]] = [
        ("--namespace", plan.namespace),
        ("--service", plan.service),
        ("--backend-service", names.backend(plan.service)),
        ("--backend-port", port.name),
        *([("--readiness", objects.compact(gateway.readiness))] if gateway.readiness else []),
        ("--max-queue", str(spec.endpoint.max_queue)),
        ("--cold-start", spec.endpoint.cold_start.mode),
        ("--heartbeat-interval-seconds", _seconds(spec.endpoint.cold_start.heartbeat_interval)),
        ("--activation-timeout-seconds", _seconds(spec.scaling.activation_timeout)),
        ("--min-replicas", str(spec.scaling.min)),
        ("--target", str(spec.scaling.target)),
        ("--drain-timeout-seconds", _seconds(gateway.drain_timeout)),
        ("--startup-budget-seconds", str(plan.engine.startup_budget_seconds)),
    ]
    flags += [("--served-model", name) for name in gateway.served_models]
    flags += [("--inference-path", path) for path in gateway.inference_paths]
    if gateway.first_byte_timeout != "default":
        flags.append(("--first-byte-timeout-seconds", _seconds(gateway.first_byte_timeout)))
    if gateway.idle_timeout != "default":
        flags.append(("--idle-timeout-seconds", _seconds(gateway.idle_timeout)))
    flags.append(("--held-bytes", str(gateway.held_bytes)))
    if isinstance(gateway.api_key, ApiKey):
        flags.append(("--api-key-file", f"{_API_KEY_FOLDER}/{_API_KEY_FILE}"))
    made = [f"{flag}={_literal(value)}" for flag, value in flags]
    if gateway.data_heartbeats:
        made.append("--data-heartbeats")
    return made + ([MEMBER] if gateway.formation.members else program.tls_flags(plan))


def _seconds(value: Decimal) -> str:
    return duration.plain(value)


def _literal(value: str) -> str:
    """A value that the kubelet's expansion of ``$(NAME)`` leaves as it is."""
    return value.replace("$", "$$")


def _pod(plan: Plan) -> Object:
    shutdown = max(math.ceil(plan.gateway.drain_timeout), _LEAST_SHUTDOWN_SECONDS)
    api_key = plan.gateway.api_key
    volumes = [_api_key_volume(api_key)] if isinstance(api_key, ApiKey) else []
    if not plan.gateway.formation.members:
        volumes += program.tls_volumes(plan)
    pod = program.pod(
        plan,
        _container(plan),
        grace_seconds=shutdown + _GRACE_BEYOND_SHUTDOWN_SECONDS,
        volumes=volumes,
    )
    return pod | ({"affinity": _apart(plan)} if plan.gateway.formation.members else {})


def _apart(plan: Plan) -> Object:
    """On different nodes where there are any: preferred, since one node shall be enough."""
    term = {
        "labelSelector": {"matchLabels": names.selector(plan.service, "gateway")},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"podAffinityTerm": term, "weight": 100}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _api_key_volume(api_key: ApiKey) -> Object:
    """Optional, since a gateway that does not start for want of a key would cut KEDA off; and a
    folder without subPath, since only such a one follows the Secret."""
    return {
        "name": "api-key",
        "secret": {
            "items": [{"key": api_key.key, "path": _API_KEY_FILE}],
            "optional": True,
            "secretName": api_key.secret,
        },
    }


def _container(plan: Plan) -> Object:
    ports = {"http": program.HTTP_PORT}
    mounts: list[Object] = []
    if isinstance(plan.gateway.api_key, ApiKey):
        mounts.append({"mountPath": _API_KEY_FOLDER, "name": "api-key", "readOnly": True})
    if not plan.gateway.formation.members:
        ports["scaler"] = program.SCALER_PORT
        mounts += program.tls_mounts(plan)
    container = program.container(
        plan,
        names.GATEWAY_CONTAINER,
        args=arguments(plan),
        ports=ports,
        resources=plan.gateway.resources,
    )
    return container | ({"volumeMounts": mounts} if mounts else {})
