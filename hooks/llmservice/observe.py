"""The world as facts: what the gateway, the backend and its Pods are seen to be.

A hook sees no Events, no history, no Secrets' content and no nodes. Facts hold no durations and no
text that changes while the world does not.
"""

import dataclasses
import datetime

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import Identity, Object
from hooks.llmservice import memory, names, pods, prewarming
from hooks.llmservice.arrange import Arrangement, Taken
from hooks.llmservice.names import ServiceName
from hooks.llmservice.pods import PodSeen
from hooks.llmservice.prewarming import PrewarmSeen, Staged


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeploymentSeen:
    """A Deployment of our own program: the gateways', or their scaler's."""

    available: bool
    # Since when it is not; None where it is, or where nothing tells.
    unavailable_since: datetime.datetime | None
    trouble: str  # Why it has no Pods, or what they say; may be empty.
    # Since when the first of its Pods waits, or none can be made; None where all are ready.
    stuck_since: datetime.datetime | None
    stuck: str  # What is to be said once that has taken too long; never empty.


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackendSeen:
    """The backend's Deployment and its Pods of the current template."""

    exists: bool
    replicas: int  # As its spec asks.
    ready: int
    forbidden: str  # Why no Pod can be made; empty where they can.
    template_hash: str
    deadline_seconds: int
    pods: tuple[PodSeen, ...]
    ending: int  # Pods of any template that were told to go and still hold their devices.
    staging_logs: str  # The command that shows how far replicas are that stage on their nodes.
    pending_claim: str  # The cache claim in words while it is not bound; else empty.
    single_node_claim: str  # Its name where it can serve replicas of one node only; else empty.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seen:
    """Everything that a status is judged on."""

    gateway: DeploymentSeen
    # What KEDA asks; the gateway itself, unless there are several.
    scaler: DeploymentSeen
    backend: BackendSeen
    prewarm: PrewarmSeen
    taken: tuple[Taken, ...]


def observe(arrangement: Arrangement, request: wire.CompositeRequest) -> Seen:
    """The facts. The arrangement says which Pod template is the current one."""
    service = ServiceName(objects.text(request.parent, "metadata", "name"))
    namespace = objects.text(request.parent, "metadata", "namespace")
    backend = names.child(names.DEPLOYMENTS, namespace, names.backend(service))
    gateway = names.child(names.DEPLOYMENTS, namespace, names.gateway(service))
    scaler = names.child(names.DEPLOYMENTS, namespace, names.scaler(service))
    gateways = _own(gateway, arrangement, names.GATEWAY_CONTAINER, request)
    return Seen(
        gateway=gateways,
        scaler=_own(scaler, arrangement, names.SCALER_CONTAINER, request)
        if scaler in arrangement.children
        else gateways,
        backend=_backend(service, namespace, arrangement.children.get(backend, {}), request),
        prewarm=prewarming.see(arrangement.weights, _staged(service, namespace, request)),
        taken=arrangement.taken,
    )


def _own(
    child: Identity, arrangement: Arrangement, component: str, request: wire.CompositeRequest
) -> DeploymentSeen:
    """The Deployment of a component, whose container has the component's name."""
    wanted = arrangement.children.get(child, {})
    deployment = memory.find(request.children, child) or {}
    available = (objects.number(deployment, "status", "availableReplicas") or 0) > 0
    since = objects.time(objects.condition(deployment, "Available"), "lastTransitionTime")
    found = _pods(request, component)
    trouble = (
        pods.forbidden(deployment)
        or pods.trouble(found, component)
        or pods.unmounted(found, component, objects.mapping(wanted, "spec", "template"))
    )
    return DeploymentSeen(
        available=available,
        unavailable_since=None
        if available
        else since or objects.time(deployment, "metadata", "creationTimestamp"),
        trouble=trouble,
        stuck_since=_stuck_since(deployment, found, component),
        stuck=trouble or _silence(wanted),
    )


def _silence(wanted: Object) -> str:
    """What to do about a Pod that is not ready and does not say why."""
    labels = objects.mapping(wanted, "spec", "selector", "matchLabels")
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    namespace = objects.text(wanted, "metadata", "namespace")
    return f"it says no more than that it is not ready: kubectl logs -n {namespace} -l {chosen}"


def _stuck_since(
    deployment: Object, found: list[Object], component: str
) -> datetime.datetime | None:
    refused = None
    if pods.forbidden(deployment):
        condition = objects.condition(deployment, "ReplicaFailure")
        refused = objects.time(condition, "lastTransitionTime")
    read = [pods.read(pod, component) for pod in found]
    waiting = [pod.since for pod in read if pod.stage is not pods.Stage.READY]
    return min((since for since in (refused, *waiting) if since is not None), default=None)


def _backend(
    service: ServiceName, namespace: str, wanted: Object, request: wire.CompositeRequest
) -> BackendSeen:
    child = names.child(names.DEPLOYMENTS, namespace, names.backend(service))
    deployment = memory.find(request.children, child) or {}
    template_hash = objects.annotation(
        objects.mapping(wanted, "spec", "template"), names.TEMPLATE_HASH
    )
    current = [
        pod
        for pod in _pods(request, "backend")
        if objects.annotation(pod, names.TEMPLATE_HASH) == template_hash is not None
    ]
    return BackendSeen(
        exists=bool(deployment),
        replicas=objects.number(deployment, "spec", "replicas") or 0,
        ready=objects.number(deployment, "status", "readyReplicas") or 0,
        forbidden=pods.forbidden(deployment),
        template_hash=template_hash or "",
        deadline_seconds=objects.number(wanted, "spec", "progressDeadlineSeconds") or 600,
        pods=tuple(pods.read(pod, names.ENGINE_CONTAINER) for pod in current),
        ending=sum(
            bool(objects.text(pod, "metadata", "deletionTimestamp"))
            for pod in _all_pods(request, "backend")
        ),
        staging_logs=_staging_logs(service, namespace),
        pending_claim=_pending_claim(service, namespace, request),
        single_node_claim=_single_node_claim(service, namespace, request),
    )


def _staged(service: ServiceName, namespace: str, request: wire.CompositeRequest) -> Staged:
    job = names.child(names.JOBS, namespace, names.prewarm(service))
    return Staged(
        service=service,
        namespace=namespace,
        job=memory.find(request.children, job) or {},
        claim=_claim(service, namespace, request),
        pods=_all_pods(request, "prewarm"),
        pending_claim=_pending_claim(service, namespace, request),
    )


def _all_pods(request: wire.CompositeRequest, component: str) -> list[Object]:
    """Every Pod of a component, by name."""
    members = request.related.get(names.PODS, {})
    return [
        pod
        for _, pod in sorted(members.items())
        if objects.mapping(pod, "metadata", "labels").get(names.LABEL_COMPONENT) == component
    ]


def _pods(request: wire.CompositeRequest, component: str) -> list[Object]:
    """The Pods of a component that still count: neither ending nor ended for good."""
    return [
        pod
        for pod in _all_pods(request, component)
        if not objects.text(pod, "metadata", "deletionTimestamp")
        and objects.text(pod, "status", "phase") not in ("Failed", "Succeeded")
    ]


def _staging_logs(service: ServiceName, namespace: str) -> str:
    chosen = ",".join(f"{k}={v}" for k, v in names.selector(service, "backend").items())
    return f"kubectl logs -n {namespace} -l {chosen} -c {names.FETCHER_CONTAINER} --prefix"


def _pending_claim(service: ServiceName, namespace: str, request: wire.CompositeRequest) -> str:
    claim = _claim(service, namespace, request)
    phase = objects.text(claim, "status", "phase")
    if not claim or phase == "Bound":
        return ""
    storage_class = objects.text(claim, "spec", "storageClassName")
    with_class = f"StorageClass {storage_class}" if storage_class else "no StorageClass"
    return f"claim {names.cache(service)} with {with_class} is {phase or 'Pending'}"


def _single_node_claim(service: ServiceName, namespace: str, request: wire.CompositeRequest) -> str:
    modes = objects.dig(_claim(service, namespace, request), "spec", "accessModes")
    return names.cache(service) if modes == ["ReadWriteOnce"] else ""


def _claim(service: ServiceName, namespace: str, request: wire.CompositeRequest) -> Object:
    """The cache claim, or an empty object."""
    claim = names.child(names.CLAIMS, namespace, names.cache(service))
    return memory.find(request.children, claim) or {}
