"""What the Pods of our own program have in common, be it a gateway or the scaler of several."""

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.plan import Plan

HTTP_PORT = 8080
SCALER_PORT = 9090

_USER = 65532

_TLS_FOLDER = "/etc/noctaya/scaler-tls"
_TLS_VOLUME = "scaler-tls"


def deployment(plan: Plan, name: str, component: str, *, replicas: int, pod: Object) -> Object:
    """A new replica is available before an old one goes: a Deployment of the component's Pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(plan, name, component),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": names.selector(plan.service, component)},
            "strategy": {
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
                "type": "RollingUpdate",
            },
            "template": {
                "metadata": {"labels": names.labels(plan.service, component)},
                "spec": pod,
            },
        },
    }


def pod(plan: Plan, container: Object, *, grace_seconds: int, volumes: list[Object]) -> Object:
    """A Pod that may read EndpointSlices, and that the restricted Pod Security profile admits."""
    made: Object = {
        "automountServiceAccountToken": True,
        "containers": [container],
        "enableServiceLinks": False,
        "securityContext": {
            "runAsGroup": _USER,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccountName": names.gateway(plan.service),
        "terminationGracePeriodSeconds": grace_seconds,
    }
    if plan.pull_secrets:
        made["imagePullSecrets"] = plan.pull_secrets
    if volumes:
        made["volumes"] = volumes
    return made


def container(
    plan: Plan, name: str, *, args: list[str], ports: dict[str, int], resources: Object
) -> Object:
    """The program's container; ``ports`` by their names."""
    return {
        "args": args,
        "image": plan.settings.gateway_image,
        "imagePullPolicy": plan.settings.image_pull_policy,
        "livenessProbe": {
            "failureThreshold": 6,
            "httpGet": {"path": "/healthz", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        "name": name,
        "ports": [
            {"containerPort": number, "name": port, "protocol": "TCP"}
            for port, number in ports.items()
        ],
        # Every second of this one is a second that a new service does not answer.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def tls_flags(plan: Plan) -> list[str]:
    """The flags of whoever serves KEDA."""
    return [f"--scaler-tls-dir={_TLS_FOLDER}"] if plan.gateway.scaler_tls else []


def tls_volumes(plan: Plan) -> list[Object]:
    """The Secret of whoever serves KEDA. Without it the Pod waits, as KEDA could not be told
    apart from anybody else."""
    secret = plan.gateway.scaler_tls
    return [{"name": _TLS_VOLUME, "secret": {"secretName": secret}}] if secret else []


def tls_secret(deployment: Object) -> str:
    """The Secret by which a Deployment of whoever serves KEDA does so; empty where by none."""
    volumes = objects.items(deployment, "spec", "template", "spec", "volumes")
    by_name = {volume.get("name"): volume for volume in volumes}
    return objects.text(by_name.get(_TLS_VOLUME, {}), "secret", "secretName")


def tls_mounts(plan: Plan) -> list[Object]:
    """Where it is; a folder without subPath, since only such a one follows the Secret."""
    if not plan.gateway.scaler_tls:
        return []
    return [{"mountPath": _TLS_FOLDER, "name": _TLS_VOLUME, "readOnly": True}]


def metadata(plan: Plan, name: str, component: str) -> Object:
    """The metadata of a child."""
    return {
        "labels": names.labels(plan.service, component),
        "name": name,
        "namespace": plan.namespace,
    }


def service(plan: Plan, name: str, component: str, *, pods: str, port: Object) -> Object:
    """A Service of one port, to the Pods of the component ``pods``."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(plan, name, component),
        "spec": {
            "ports": [{**port, "protocol": "TCP"}],
            "selector": names.selector(plan.service, pods),
            "type": "ClusterIP",
        },
    }
