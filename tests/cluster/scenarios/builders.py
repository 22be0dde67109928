"""Manifests for the scenarios: an echo engine as the runtime, and services that use it."""

from typing import Any

from tests.cluster import layout

Object = dict[str, Any]

API_VERSION = "serving.noctaya.io/v1alpha1"

# An engine's own count of what it works on.
RUNNING = "vllm:num_requests_running"


def merged(base: Any, overlay: Any) -> Any:
    """``base`` with the members of ``overlay``, at every depth; a list is replaced whole."""
    if not isinstance(base, dict) or not isinstance(overlay, dict):
        return overlay
    return base | {key: merged(base.get(key), value) for key, value in overlay.items()}


def runtime(
    name: str,
    *,
    load_seconds: float = 0,
    tokens_per_second: float = 0,
    drains: bool = False,
    metrics: bool = False,
) -> Object:
    """The echo engine, quick to be seen as ready; at 0 tokens a second it speaks without a pause.

    With ``drains`` a replica that ends is held for the whole drainTimeout; where it names its
    ``metrics`` too, only until it has been without work for a while.
    """
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}
    spec: Object = {
        "vendor": "nvidia",
        "container": {
            "image": f"noctaya/echo:{layout.VERSION}",
            "args": [
                "--model={{ .Model.Path }}",
                f"--load-seconds={load_seconds:g}",
                f"--tokens-per-second={tokens_per_second:g}",
            ],
            "port": {"name": "http", "containerPort": 8000},
        },
        "accelerator": {"resourceName": "nvidia.com/gpu"},
        "health": {"readiness": probe, "startup": {**probe, "failureThreshold": 60}},
        "lifecycle": {"preStopDrain": drains, "terminationGracePeriodSeconds": 5},
    }
    if metrics:
        spec["metrics"] = {"queueDepth": "vllm:num_requests_waiting", "running": RUNNING}
    annotations = {"serving.noctaya.io/accelerator": "none"}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceRuntime",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def staged_runtime(name: str, *, device: str, weights: str, env: list[Object]) -> Object:
    """An echo engine on a device, that is ready where it sees its weights and only there.

    ``weights`` is a pattern for their file; ``env`` is what downloads need.
    """
    made = runtime(name)
    made["metadata"]["annotations"] = {}
    made["spec"]["accelerator"] = {"resourceName": device}
    made["spec"]["container"]["args"].append("--served-model-name=noctaya/echo")
    made["spec"]["container"]["env"] = env
    seen = {"exec": {"command": ["sh", "-c", f"test -s {weights}"]}}
    made["spec"]["health"]["readiness"] = {**seen, "periodSeconds": 1}
    return made


def volume(
    name: str, storage_class: str, path: str, node: str, access_mode: str = "ReadWriteOnce"
) -> Object:
    """A volume of one node, in a folder that exists there, for one claim of its class."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [access_mode],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": path},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]},
            },
        },
    }


def claim(name: str, storage_class: str) -> Object:
    """A user's own claim of a volume of this class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
        },
    }


def environment(texts: dict[str, str]) -> list[Object]:
    """Literal variables of a container."""
    return [{"name": name, "value": text} for name, text in texts.items()]


def secret(namespace: str, name: str, texts: dict[str, str]) -> Object:
    """A Secret of these texts."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": name},
        "stringData": texts,
    }


def pod_quota(namespace: str, pods: int) -> Object:
    """A quota that lets a namespace have so many Pods."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": "pods"},
        "spec": {"hard": {"pods": str(pods)}},
    }


def service(
    namespace: str,
    name: str,
    runtime_name: str,
    *,
    replicas: tuple[int, int] = (0, 1),
    target: int = 10,
    idle_seconds: int = 5,
    drain_seconds: int = 0,
    mode: str = "keepalive",
    source: Object | None = None,
    cache: Object | None = None,
) -> Object:
    """A service of an echo runtime; ``replicas`` are min and max."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LLMService",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "model": {"source": source or {"uri": "hf://noctaya/echo"}},
            "runtime": {"name": runtime_name},
            "cache": cache or {"strategy": "None"},
            "scaling": {
                "min": replicas[0],
                "max": replicas[1],
                "target": target,
                "activationTimeout": "90s",
                "scaleDownStabilization": f"{idle_seconds}s",
                "drainTimeout": f"{drain_seconds}s",
            },
            "endpoint": {"coldStart": {"mode": mode, "heartbeatInterval": "1s"}},
        },
    }
