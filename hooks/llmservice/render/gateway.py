"""The gateway's Deployment and the two Services that lead to it."""

import math
from decimal import Decimal

from hooks.k8s import duration, objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import ApiKey, Plan

HTTP_PORT = 8080
SCALER_PORT = 9090

# How long held requests may go on after SIGTERM, and what the Pod needs beyond that.
_LEAST_SHUTDOWN_SECONDS = 60
_GRACE_BEYOND_SHUTDOWN_SECONDS = 15

_USER = 65532

_API_KEY_FOLDER = "/etc/noctaya/api-key"
_API_KEY_FILE = "key"


def deployment(plan: Plan) -> Object:
    """The gateway's Deployment: a new replica is available before an old one goes."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(plan, names.gateway(plan.service)),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": names.selector(plan.service, "gateway")},
            "strategy": {
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
                "type": "RollingUpdate",
            },
            "template": {
                "metadata": {"labels": names.labels(plan.service, "gateway")},
                "spec": _pod(plan),
            },
        },
    }


def endpoint_service(plan: Plan) -> Object:
    """What clients use."""
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}
    return _service(plan, names.endpoint(plan.service), "gateway", port)


def scaler_service(plan: Plan) -> Object:
    """What KEDA uses; leads to the gateway, which is its own scaler."""
    port = {"name": "grpc", "port": SCALER_PORT, "protocol": "TCP", "targetPort": "scaler"}
    return _service(plan, names.scaler(plan.service), "scaler", port)


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
    if isinstance(gateway.api_key, ApiKey):
        flags.append(("--api-key-file", f"{_API_KEY_FOLDER}/{_API_KEY_FILE}"))
    return [f"{flag}={_literal(value)}" for flag, value in flags]


def _seconds(value: Decimal) -> str:
    return duration.plain(value)


def _literal(value: str) -> str:
    """A value that the kubelet's expansion of ``$(NAME)`` leaves as it is."""
    return value.replace("$", "$$")


def _pod(plan: Plan) -> Object:
    shutdown = max(math.ceil(plan.gateway.drain_timeout), _LEAST_SHUTDOWN_SECONDS)
    pod: Object = {
        "automountServiceAccountToken": True,
        "containers": [_container(plan)],
        "enableServiceLinks": False,
        "securityContext": {
            "runAsGroup": _USER,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccountName": names.gateway(plan.service),
        "terminationGracePeriodSeconds": shutdown + _GRACE_BEYOND_SHUTDOWN_SECONDS,
    }
    if plan.pull_secrets:
        pod["imagePullSecrets"] = plan.pull_secrets
    if isinstance(plan.gateway.api_key, ApiKey):
        pod["volumes"] = [_api_key_volume(plan.gateway.api_key)]
    return pod


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
    container: Object = {
        "args": arguments(plan),
        "image": plan.settings.gateway_image,
        "imagePullPolicy": plan.settings.image_pull_policy,
        "livenessProbe": {
            "failureThreshold": 6,
            "httpGet": {"path": "/healthz", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        "name": names.GATEWAY_CONTAINER,
        "ports": [
            {"containerPort": HTTP_PORT, "name": "http", "protocol": "TCP"},
            {"containerPort": SCALER_PORT, "name": "scaler", "protocol": "TCP"},
        ],
        # Every second of this one is a second that a new service does not answer.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if plan.gateway.resources:
        container["resources"] = plan.gateway.resources
    if isinstance(plan.gateway.api_key, ApiKey):
        container["volumeMounts"] = [
            {"mountPath": _API_KEY_FOLDER, "name": "api-key", "readOnly": True}
        ]
    return container


def _service(plan: Plan, name: str, component: str, port: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(plan, name, component),
        "spec": {
            "ports": [port],
            "selector": names.selector(plan.service, "gateway"),
            "type": "ClusterIP",
        },
    }


def _metadata(plan: Plan, name: str, component: str = "gateway") -> Object:
    return {
        "labels": names.labels(plan.service, component),
        "name": name,
        "namespace": plan.namespace,
    }
