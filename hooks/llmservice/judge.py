"""The status: one table, of which the first row that matches wins."""

import dataclasses
import datetime

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import autoscaler, failures, names
from hooks.llmservice.failures import Deadlines, Failed
from hooks.llmservice.names import ServiceName
from hooks.llmservice.observe import BackendSeen, DeploymentSeen, Seen
from hooks.llmservice.plan import Plan, Unresolved
from hooks.llmservice.pods import PodSeen, Stage
from hooks.llmservice.reasons import Reason
from hooks.llmservice.verdict import Verdict, condition, false, true, unfinished
from hooks.llmservice.words import Words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """The parent's status, and in how many seconds time alone may change it (0: never)."""

    status: Object
    look_again_seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Row:
    phase: str
    ready: Verdict
    degraded: Verdict


def judge(
    outcome: Plan | Unresolved,
    seen: Seen,
    words: Words | None,
    parent: Object,
    *,
    now: datetime.datetime,
) -> Judgement:
    """The status of ``parent``; ``words`` is what the autoscaling Decorator wrote, if anything."""
    deadlines = Deadlines(now=now)
    failed = failures.find(seen, objects.mapping(parent, "status", "lastFailure"), deadlines)
    certificate = outcome.gateway.scaler_tls if isinstance(outcome, Plan) else ""
    autoscaling = autoscaler.verdict(words, seen, deadlines, certificate=certificate)
    row = _row(seen, failed, autoscaling)
    ready = _with_stuck_gateway(row.ready, seen.gateway, deadlines)
    if isinstance(outcome, Unresolved):
        ready = false(outcome.reason, outcome.message)
    verdicts = {"Ready": ready, "Degraded": row.degraded, "AutoscalingReady": autoscaling}
    if isinstance(outcome, Plan):
        verdicts["ColdStartBudget"] = _cold_start_budget(outcome)
    status: Object = {
        "conditions": [condition(kind, v, parent, now=now) for kind, v in verdicts.items()],
        "phase": row.phase,
        "replicas": seen.backend.ready,
    }
    return Judgement(
        status=status | _names(outcome, parent) | failures.remember(failed, seen.backend),
        look_again_seconds=deadlines.next_seconds,
    )


def _with_stuck_gateway(ready: Verdict, gateway: DeploymentSeen, deadlines: Deadlines) -> Verdict:
    """Other gateways serve, so that nothing is degraded; a change of the spec may not arrive."""
    if not gateway.available:
        return ready
    if not deadlines.passed(gateway.stuck_since, failures.GATEWAY_DEADLINE_SECONDS):
        return ready
    message = f"{unfinished(ready.message)}; a gateway's Pod does not become ready: {gateway.stuck}"
    return dataclasses.replace(ready, message=message)


def _row(seen: Seen, failed: Failed, autoscaling: Verdict) -> _Row:
    taken = [child for child in seen.taken if not child.going]
    if taken:
        listed = ", ".join(f"{child.kind} {child.name}" for child in taken)
        return _degraded(
            Verdict.of_failure(
                Reason.CHILD_NAME_TAKEN, f"held by an object that is not ours: {listed}"
            )
        )
    if not seen.gateway.available:
        return _without_gateway(seen, failed)
    if seen.backend.ready > 0:
        message = _serving(seen.backend)
        return _Row(
            phase="Ready",
            ready=true(Reason.AVAILABLE, message),
            degraded=false(Reason.AVAILABLE, message),
        )
    if failed.backend is not None:
        return _degraded(Verdict.of_failure(failed.backend.reason, failed.backend.message))
    if seen.backend.replicas == 0 and not seen.prewarm.weights.usable:
        return _Row(
            phase="Loading",
            ready=false(Reason.PREWARMING, seen.prewarm.progress),
            degraded=false(Reason.PROGRESSING, Reason.PROGRESSING.help),
        )
    if seen.backend.replicas > 0 or not seen.backend.exists:
        return _progressing(seen.backend)
    if autoscaling.status != "True":
        return _Row(
            phase="Pending",
            ready=false(autoscaling.reason, autoscaling.message),
            degraded=false(Reason.PROGRESSING, Reason.PROGRESSING.help),
        )
    return _Row(
        phase="ScaledToZero",
        ready=true(Reason.SCALED_TO_ZERO, _at_zero(seen.backend)),
        degraded=false(Reason.INACTIVE, Reason.INACTIVE.help),
    )


def _at_zero(backend: BackendSeen) -> str:
    if backend.ending:
        return (
            f"no replica is asked for, and a request starts one; {backend.ending} still finishing"
            " what it has, and holding its accelerator until then"
        )
    return Reason.SCALED_TO_ZERO.help


def _degraded(failure: Verdict) -> _Row:
    return _Row(phase="Degraded", ready=false(failure.reason, failure.message), degraded=failure)


def _without_gateway(seen: Seen, failed: Failed) -> _Row:
    if failed.gateway is not None:
        failure = Verdict.of_failure(failed.gateway.reason, failed.gateway.message)
        return dataclasses.replace(_degraded(failure), phase="Pending")
    message = Reason.GATEWAY_STARTING.help
    going = [f"{child.kind} {child.name}" for child in seen.taken]
    if going:
        listed = ", ".join(going)
        message = f"waits for the children of an earlier service of this name to go: {listed}"
    elif seen.gateway.trouble:
        message = f"no gateway replica is available yet: {seen.gateway.trouble}"
    return _Row(
        phase="Pending",
        ready=false(Reason.GATEWAY_STARTING, message),
        degraded=false(Reason.PROGRESSING, Reason.PROGRESSING.help),
    )


def _progressing(backend: BackendSeen) -> _Row:
    phase, reason, message = _stage(backend)
    return _Row(
        phase=phase,
        ready=false(reason, message),
        degraded=false(Reason.PROGRESSING, Reason.PROGRESSING.help),
    )


def _stage(backend: BackendSeen) -> tuple[str, Reason, str]:
    """How far the furthest replica's start has come."""
    furthest: PodSeen | None = max(backend.pods, key=lambda pod: pod.stage, default=None)
    match furthest.stage if furthest is not None else Stage.WAITING:
        case Stage.WAITING:
            return "Pending", Reason.ACTIVATING, Reason.ACTIVATING.help
        case Stage.UNSCHEDULABLE:
            assert furthest is not None
            return "Pending", Reason.SCHEDULING_DELAYED, _unschedulable(furthest, backend)
        case Stage.STARTING:
            return "Loading", Reason.STARTING, Reason.STARTING.help
        case Stage.STAGING:
            assert furthest is not None
            return "Loading", Reason.STAGING_ON_NODE, _staging(furthest, backend)
        case Stage.LOADING | Stage.READY:
            return "Loading", Reason.MODEL_LOADING, Reason.MODEL_LOADING.help


def _staging(pod: PodSeen, backend: BackendSeen) -> str:
    words = f"{Reason.STAGING_ON_NODE.help} {backend.staging_logs} shows how far it is."
    attempt = f" An attempt failed and is made again: {pod.attempt}." if pod.attempt else ""
    return words + attempt


def _serving(backend: BackendSeen) -> str:
    """How many replicas are ready, and why another one finds no place beside them."""
    message = f"replicas ready: {backend.ready}, wanted: {backend.replicas}"
    homeless = [pod for pod in backend.pods if pod.stage is Stage.UNSCHEDULABLE]
    return "; ".join([message, *(_unschedulable(pod, backend) for pod in homeless[:1])])


def _unschedulable(pod: PodSeen, backend: BackendSeen) -> str:
    said = [pod.scheduler_words or "the scheduler does not say why", backend.pending_claim]
    if backend.replicas > 1 and backend.single_node_claim:
        said.append(
            f"claim {backend.single_node_claim} is ReadWriteOnce, so that all replicas must fit on"
            " one node; more nodes need cache.strategy: SharedPVC"
        )
    return "no node takes the Pod: " + "; ".join(unfinished(words) for words in said if words)


def _cold_start_budget(plan: Plan) -> Verdict:
    scaling = plan.spec.scaling
    kept = scaling.activation_timeout + scaling.scale_down_stabilization
    if kept < plan.engine.startup_budget_seconds:
        return false(Reason.STARTUP_OUTLASTS_DEMAND, Reason.STARTUP_OUTLASTS_DEMAND.help)
    return true(Reason.SUFFICIENT, Reason.SUFFICIENT.help)


def _names(outcome: Plan | Unresolved, parent: Object) -> Object:
    """What the status names: the runtime that the children were made with, and the endpoint."""
    if isinstance(outcome, Plan):
        runtime = outcome.runtime
    else:
        runtime = objects.text(parent, "status", "resolvedRuntime")
    service = ServiceName(objects.text(parent, "metadata", "name"))
    url = names.endpoint_url(service, objects.text(parent, "metadata", "namespace"))
    return {"endpointURL": url} | ({"resolvedRuntime": runtime} if runtime else {})
