"""The backend: the engine's Deployment and the headless Service in front of it."""

import hashlib

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import environment, names, sources
from hooks.llmservice.plan import CacheClaim, CacheInPod, CacheOnNode, Download, Plan, StagingOnNode
from hooks.llmservice.render import fetcher

# Scheduling, a volume and the pull of an image of many gigabytes come before the startup budget.
_BEFORE_START_SECONDS = 300

# The group that may write to a claim, whatever user the engine's image runs as.
CACHE_GROUP = 65532


def deployment(plan: Plan) -> Object:
    """The engine's Deployment, with `scaling.min` replicas.

    Accelerators have no spare, so a replica goes before its successor comes; the gateway bridges
    the gap.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "labels": names.labels(plan.service, "backend"),
            "name": names.backend(plan.service),
            "namespace": plan.namespace,
        },
        "spec": {
            "progressDeadlineSeconds": plan.engine.startup_budget_seconds + _BEFORE_START_SECONDS,
            "replicas": plan.spec.scaling.min,
            "selector": {"matchLabels": names.selector(plan.service, "backend")},
            "strategy": {
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
                "type": "RollingUpdate",
            },
            "template": _hashed(_template(plan)),
        },
    }


def service(plan: Plan) -> Object:
    """Names the replicas for the gateway's EndpointSlice watch; nobody resolves it."""
    port = plan.engine.port
    metadata: Object = {
        "labels": names.labels(plan.service, "backend"),
        "name": names.backend(plan.service),
        "namespace": plan.namespace,
    }
    if plan.engine.scrape:
        # Not on the Pods: naming a metric must not restart an engine.
        metadata["annotations"] = plan.engine.scrape
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "ports": [
                {
                    "name": port.name,
                    "port": port.number,
                    "protocol": "TCP",
                    "targetPort": port.name,
                }
            ],
            "selector": names.selector(plan.service, "backend"),
        },
    }


def _hashed(template: Object) -> Object:
    """The template with a hash of itself: the only way a hook can tell the current one's Pods."""
    digest = hashlib.sha256(objects.compact(template).encode()).hexdigest()[:16]
    annotations = {**template["metadata"].get("annotations", {}), names.TEMPLATE_HASH: digest}
    return {**template, "metadata": {**template["metadata"], "annotations": annotations}}


def _template(plan: Plan) -> Object:
    metadata: Object = {"labels": names.labels(plan.service, "backend")}
    annotations = {}
    if plan.engine.queue:
        annotations[names.VOLCANO_QUEUE] = plan.engine.queue
    if isinstance(plan.staging, Download):
        # Another revision has the same name for the engine, and is another model all the same.
        annotations[names.SOURCE] = plan.staging.uri
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _pod(plan)}


def _pod(plan: Plan) -> Object:
    engine = plan.engine
    pod: Object = {
        "automountServiceAccountToken": False,
        "containers": [_container(plan)],
        # A Service called `vllm` would otherwise set VLLM_PORT in every Pod of its namespace.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": engine.grace_seconds,
        "volumes": _volumes(plan),
    }
    if isinstance(plan.cache, CacheClaim):
        pod["securityContext"] = {
            "fsGroup": CACHE_GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
        }
    if isinstance(plan.staging, StagingOnNode):
        pod["initContainers"] = [_stager(plan.staging)]
    optional: Object = {
        "imagePullSecrets": plan.pull_secrets,
        "nodeSelector": engine.node_selector,
        "schedulerName": engine.scheduler,
        "tolerations": list(engine.tolerations),
    }
    return pod | {field: value for field, value in optional.items() if value}


def _stager(staging: StagingOnNode) -> Object:
    """Brings the weights into the node's folder before the engine starts.

    As root, since the kubelet makes that folder for root and fsGroup means nothing there; with the
    two capabilities that it takes where another user's engine has made folders before: to write in
    them, and to open one of them for all.
    """
    return fetcher.container(
        staging,
        open_folders=environment.OPEN_FOLDERS,
        security={
            "capabilities": {"add": ["DAC_OVERRIDE", "FOWNER"], "drop": ["ALL"]},
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "runAsUser": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    )


def _container(plan: Plan) -> Object:
    engine = plan.engine
    container: Object = {
        "env": list(engine.env),
        "image": engine.image,
        "name": names.ENGINE_CONTAINER,
        "ports": [
            {"containerPort": engine.port.number, "name": engine.port.name, "protocol": "TCP"}
        ],
        "readinessProbe": engine.readiness,
        "securityContext": {"allowPrivilegeEscalation": False},
        "startupProbe": engine.startup,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(plan),
    }
    optional: Object = {
        "args": list(engine.args),
        "lifecycle": {"preStop": engine.pre_stop} if engine.pre_stop else {},
        "livenessProbe": engine.liveness,
        "resources": engine.resources,
    }
    return container | {field: value for field, value in optional.items() if value}


def _mounts(plan: Plan) -> list[Object]:
    paths = plan.settings.paths
    cache: Object = {"mountPath": paths.cache, "name": "cache"}
    if isinstance(plan.cache, CacheClaim) and plan.cache.read_only:
        cache["readOnly"] = True
    mounts: list[Object] = [
        cache,
        {"mountPath": "/dev/shm", "name": "shared-memory"},  # noqa: S108 - a mount point.
        {"mountPath": paths.scratch, "name": "scratch"},
    ]
    if isinstance(plan.source, sources.Claim):
        mount: Object = {"mountPath": paths.models, "name": "models", "readOnly": True}
        if plan.source.subpath:
            mount["subPath"] = plan.source.subpath
        mounts.append(mount)
    return mounts


def _volumes(plan: Plan) -> list[Object]:
    shared_memory: Object = {"medium": "Memory"}
    if plan.engine.shared_memory:
        shared_memory["sizeLimit"] = plan.engine.shared_memory
    volumes: list[Object] = [
        {"name": "cache", **_cache_volume(plan)},
        {"emptyDir": shared_memory, "name": "shared-memory"},
        {"emptyDir": {}, "name": "scratch"},
    ]
    if isinstance(plan.source, sources.Claim):
        claim = {"claimName": plan.source.name, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": claim})
    if isinstance(plan.staging, StagingOnNode):
        volumes += fetcher.auth_volumes(plan.staging, mode=0o400)
    return volumes


def _cache_volume(plan: Plan) -> Object:
    match plan.cache:
        case CacheClaim():
            return {"persistentVolumeClaim": {"claimName": names.cache(plan.service)}}
        case CacheInPod():
            return {"emptyDir": {}}
        case CacheOnNode(folder=folder):
            return {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
