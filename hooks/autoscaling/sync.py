"""The Decorator's two questions: what should be attached, and what is there to look at."""

import dataclasses
import datetime
import enum

from hooks import wire
from hooks.api.llmservice import LLMServiceSpec
from hooks.autoscaling import render
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import formation, names, weights
from hooks.llmservice.arrange import is_going, is_marked
from hooks.llmservice.failures import Deadlines
from hooks.llmservice.memory import restore
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import Unresolved
from hooks.llmservice.render import program
from hooks.llmservice.resolve import read_spec
from hooks.llmservice.weights import Weights
from hooks.llmservice.words import Words, encode

# KEDA looks within milliseconds of a write, when its node may not lead to the new scaler yet. What
# it does not find then it looks for again after as long as it was missing, or 1000 s.
_ASK_AGAIN_AFTER_SECONDS = (15, 60)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seen:
    """What the Decorator looks at. Absent objects are empty."""

    attached: Object
    holder: Object  # Whatever holds the ScaledObject's name.
    backend: Object
    scaler: Object  # Of several gateways, or the one gateway.
    job: Object
    claim: Object

    @property
    def must_pause(self) -> bool:
        """Whether a replica would start on weights that are gone.

        One that still runs is not touched: its weights are in memory.
        """
        at_zero = objects.number(self.backend, "spec", "replicas") == 0
        return at_zero and weights.are_gone(self.backend, self.claim)

    @property
    def available_since(self) -> str:
        """Since when the scaler is available; empty while it is not."""
        available = objects.condition(self.scaler, "Available")
        if available.get("status") != "True":
            return ""
        return objects.text(available, "lastTransitionTime")


class Step(enum.Enum):
    """How far the hand-over to KEDA has come, in words."""

    KEPT = "the ScaledObject is attached and stays until its service goes"
    WITHHELD = "a ScaledObject of this name is not ours and is left alone"
    UNRESOLVED = "the spec does not resolve: nothing is attached for the first time"
    SCALER_AWAITED = "waits for the scaler: no replica of its Deployment is available"
    WEIGHTS_AWAITED = "waits for the weights: they are not staged"
    MINIMUM_AWAITED = "waits for the backend to be asked for scaling.min replicas"
    MARK_AWAITED = "step 1 of the hand-over: waits for the Composite to mark the backend as KEDA's"
    ATTACHED = "step 3 of the hand-over: the backend is marked as KEDA's"


def sync(request: wire.DecoratorRequest, *, now: datetime.datetime) -> wire.DecoratorResponse:
    """The ScaledObject of the request's parent, and what KEDA says about it."""
    _, answer = decide(request, now=now)
    return answer


def decide(
    request: wire.DecoratorRequest, *, now: datetime.datetime
) -> tuple[Step, wire.DecoratorResponse]:
    """The answer, and the step of the hand-over that it belongs to."""
    seen = _see(request)
    spec = read_spec(request.parent)
    if seen.attached:
        kept = _kept(request, seen, spec)
        kept = [render.with_pause(obj, paused=seen.must_pause) for obj in kept]
        deadlines = Deadlines(now=now)
        if seen.available_since:
            # An outage that ended is KEDA's to know, whatever became of the spec meanwhile.
            looks = seen.available_since, _asked_again(seen, deadlines)
            kept = [render.with_looks(obj, *looks) for obj in kept]
        answer = _answer(kept, _words(seen.attached), look_again_seconds=deadlines.next_seconds)
        return Step.KEPT, answer
    if seen.holder:
        return Step.WITHHELD, _answer([], _withheld(seen.holder, request.parent))
    if isinstance(spec, Unresolved):
        return Step.UNRESOLVED, _answer([], None)
    if not seen.available_since:
        return Step.SCALER_AWAITED, _answer([], None)
    if is_marked(seen.backend):
        return Step.ATTACHED, _answer([_rendered(request.parent, seen, spec)], Words())
    if not _has_weights(seen, spec):
        return Step.WEIGHTS_AWAITED, _answer([], None)
    if not _has_minimum(seen.backend, spec):
        return Step.MINIMUM_AWAITED, _answer([], None)
    return Step.MARK_AWAITED, _answer([], Words())


def customize(request: wire.CustomizeRequest) -> wire.CustomizeResponse:
    """The backend, what may be the scaler, the weights, and who holds the ScaledObject's name.

    The kind ScaledObject may be asked for here: where it is missing, this Decorator does not start.
    """
    service, namespace = _identity(request.parent)
    rules = [
        wire.RelatedRule(
            api_version="apps/v1",
            resource="deployments",
            namespace=namespace,
            names=(names.backend(service), names.gateway(service), names.scaler(service)),
        ),
        wire.RelatedRule(
            api_version="batch/v1",
            resource="jobs",
            namespace=namespace,
            names=(names.prewarm(service),),
        ),
        wire.RelatedRule(
            api_version="v1",
            resource="persistentvolumeclaims",
            namespace=namespace,
            names=(names.cache(service),),
        ),
        wire.RelatedRule(
            api_version="keda.sh/v1alpha1",
            resource="scaledobjects",
            namespace=namespace,
            names=(names.scaled_object(service),),
        ),
    ]
    return wire.CustomizeResponse(related_resources=rules)


def _see(request: wire.DecoratorRequest) -> _Seen:
    service, namespace = _identity(request.parent)
    deployments = request.related.get(names.DEPLOYMENTS, {})
    jobs, claims = request.related.get(names.JOBS, {}), request.related.get(names.CLAIMS, {})
    scaled_object = f"{namespace}/{names.scaled_object(service)}"
    uid = objects.text(request.parent, "metadata", "uid")
    holder = request.related.get(render.SCALED_OBJECTS, {}).get(scaled_object, {})
    gateway, of_several = (
        _ours(deployments.get(f"{namespace}/{name}", {}), uid)
        for name in (names.gateway(service), names.scaler(service))
    )
    return _Seen(
        attached=request.attachments.get(render.SCALED_OBJECTS, {}).get(scaled_object, {}),
        # Ours, but not in the attachments yet, is no stranger.
        holder={} if _is_ours(holder, uid) else holder,
        backend=_ours(deployments.get(f"{namespace}/{names.backend(service)}", {}), uid),
        scaler=of_several if formation.leaves_keda_alone(gateway) else gateway,
        job=_ours(jobs.get(f"{namespace}/{names.prewarm(service)}", {}), uid),
        claim=_ours(claims.get(f"{namespace}/{names.cache(service)}", {}), uid),
    )


def _kept(
    request: wire.DecoratorRequest, seen: _Seen, spec: LLMServiceSpec | Unresolved
) -> list[Object]:
    """The attached ScaledObject: as it was, unless the scaler is there to answer for a new one."""
    if not seen.available_since or isinstance(spec, Unresolved):
        return list(restore(request.attachments).values())
    wanted = _rendered(request.parent, seen, spec)
    if not _answers_as_asked(seen.scaler, spec):
        # Whoever answers KEDA so far has the certificate, or none, that it was started with.
        wanted = render.with_authentication_of(wanted, seen.attached)
    return [wanted]


def _asked_again(seen: _Seen, deadlines: Deadlines) -> int:
    """How often KEDA is to have looked once more, for want of a word that it found the scaler."""
    asked = render.asked_again(seen.attached, seen.available_since)
    if _words(seen.attached).ready == "True":
        return asked
    times = (
        objects.parse_time(seen.available_since),
        objects.time(seen.attached, "metadata", "creationTimestamp"),
    )
    since = max((time for time in times if time is not None), default=None)
    return max(asked, sum(deadlines.passed(since, after) for after in _ASK_AGAIN_AFTER_SECONDS))


def _answers_as_asked(scaler: Object, spec: LLMServiceSpec) -> bool:
    """Whether who answers KEDA has the certificate that is asked for, or none.

    An edit is seen here before the Composite has given it to the Deployment.
    """
    external = spec.scaling.external_scaler
    asked = external.tls.server_secret_name if external is not None and external.tls else ""
    return program.tls_secret(scaler) == asked and formation.is_rolled_out(scaler)


def _rendered(parent: Object, seen: _Seen, spec: LLMServiceSpec) -> Object:
    service, namespace = _identity(parent)
    return render.scaled_object(
        service, namespace, spec.scaling, available_since=seen.available_since
    )


def _has_minimum(backend: Object, spec: LLMServiceSpec) -> bool:
    replicas = objects.number(backend, "spec", "replicas")
    return replicas is not None and replicas >= spec.scaling.min


def _has_weights(seen: _Seen, spec: LLMServiceSpec) -> bool:
    return not weights.are_awaited(spec) or weights.judge(seen.job, seen.claim) is Weights.STAGED


def _words(scaled_object: Object) -> Words:
    """KEDA's Ready condition. Its other conditions change with every request and stay out.

    Before its first look KEDA writes a condition that gives no reason: that is silence, too.
    """
    ready = objects.condition(scaled_object, "Ready")
    if not objects.text(ready, "reason"):
        return Words()
    return Words(
        ready=objects.text(ready, "status"),
        reason=objects.text(ready, "reason"),
        message=objects.text(ready, "message"),
    )


def _withheld(holder: Object, parent: Object) -> Words:
    name, namespace = (objects.text(holder, "metadata", field) for field in ("name", "namespace"))
    message = (
        f"ScaledObject {name} is not ours and is left alone; delete or rename it, or give the"
        " service another name"
    )
    if is_going(holder, parent):
        message = (
            f"waits for ScaledObject {name} of an earlier service of this name to go; where KEDA"
            f" went first: kubectl patch scaledobject {name} -n {namespace} --type=merge -p"
            """ '{"metadata": {"finalizers": null}}'"""
        )
    return Words(ready="False", reason="ChildNameTaken", message=message, withheld=True)


def _answer(
    attachments: list[Object], words: Words | None, *, look_again_seconds: float = 0
) -> wire.DecoratorResponse:
    return wire.DecoratorResponse(
        attachments=attachments,
        resync_after_seconds=look_again_seconds,
        annotations={} if words is None else {names.AUTOSCALING: encode(words)},
    )


def _identity(parent: Object) -> tuple[ServiceName, str]:
    name = objects.text(parent, "metadata", "name")
    return ServiceName(name), objects.text(parent, "metadata", "namespace")


def _ours(obj: Object, uid: str) -> Object:
    return obj if _is_ours(obj, uid) else {}


def _is_ours(obj: Object, uid: str) -> bool:
    """Nothing is of a parent without a uid: what nobody controls has none either."""
    return bool(uid) and objects.text(objects.controller_of(obj), "uid") == uid
