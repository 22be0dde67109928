"""What may be applied to the world as it is: the rules that keep mistakes from destroying things.

- A spec that does not resolve gives back every child as it was last applied.
- Nobody lowers the backend's replicas but KEDA, once the number was handed over.
- No replica starts, and none changes, before the weights that it needs are staged.
- A claim and its Job stay as long as their service does, whatever the spec says.
- A name that is held by an object which is not ours is left alone.
"""

import dataclasses
import enum
from collections.abc import Callable

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Identity, Object
from hooks.llmservice import memory, names, render, reorder, weights
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import CacheClaim, Plan, Staging, Unresolved
from hooks.llmservice.reasons import Reason
from hooks.llmservice.render import prewarm, storage
from hooks.llmservice.weights import Weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class Taken:
    """A child that is withheld, since its name is held by an object that is not ours."""

    kind: str
    name: str
    # It belonged to an earlier service of this name and goes by itself.
    going: bool


class ReplicasRule(enum.Enum):
    """Why the backend's Deployment has the number of replicas that it has, in words."""

    WITHOUT = "there is no backend Deployment among the children"
    RENDERED = "as rendered: the number was not handed over to KEDA"
    KEDAS = "as observed: the number was handed over to KEDA"
    RESTORED = "as observed: the spec does not resolve"
    STAGING = "as observed: the weights are not staged"
    BEFORE_STAGING = "none: the backend is made before its weights are staged"
    UNKNOWN = "as rendered: no number is observed or remembered"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrangement:
    """The children of the answer, those that cannot be made, and what they wait for."""

    children: dict[Identity, Object]
    taken: tuple[Taken, ...]
    weights: Weights
    replicas_rule: ReplicasRule


def check_made_once(plan: Plan, request: wire.CompositeRequest) -> Plan | Unresolved:
    """Unresolved where a claim or a Job exists that was made from another spec than the plan's."""
    claim, job = names.cache(plan.service), names.prewarm(plan.service)
    made = _observed_job(request)
    # A claim is kept by every Pod that names it, one that ended long ago too.
    both = f"pvc {claim}" if made is None else f"job/{job} pvc/{claim} -n {plan.namespace}"
    if isinstance(plan.cache, CacheClaim):
        wanted = objects.annotation(storage.claim(plan, plan.cache), names.SPEC_HASH) or ""
        if _differs(_observed_claim(request), wanted):
            return Unresolved(
                reason=Reason.CACHE_SPEC_CHANGED,
                message=f"claim {claim} was made from another spec.cache (strategy, size or"
                f" storageClassName); change it back, or lose the weights on the claim with"
                f" kubectl delete {both}",
            )
    if isinstance(plan.staging, Staging) and _differs(made, prewarm.spec_hash(plan.staging)):
        return Unresolved(
            reason=Reason.PREWARM_SPEC_CHANGED,
            message=f"Job {job} was made for another spec.model.source.uri than"
            f" {plan.staging.uri}; change it back, or have the new weights staged beside the old"
            f" ones with kubectl delete job {job} -n {plan.namespace}",
        )
    return plan


def arrange(
    outcome: Plan | Unresolved, request: wire.CompositeRequest, *, handed_over: bool
) -> Arrangement:
    """The children to answer with. ``handed_over``: the backend's replicas are KEDA's."""
    taken: list[Taken] = []
    state = _weights(outcome, request)
    if isinstance(outcome, Unresolved):
        children = memory.restore(request.children)
    else:
        children, taken = _withhold(_rendered(outcome, state, request), request)
        children |= _kept(children, request)
        if not state.usable:
            children = _held_back(children, outcome, request)
    backend = _child(names.DEPLOYMENTS, names.backend, request)
    rule = ReplicasRule.WITHOUT
    if backend in children:
        observed = memory.ours(backend, request)
        children[backend], rule = _with_replicas(
            reorder.step(children[backend], observed),
            observed,
            restored=isinstance(outcome, Unresolved),
            handed_over=handed_over,
            usable=state.usable,
        )
    return Arrangement(children=children, taken=tuple(taken), weights=state, replicas_rule=rule)


def is_marked(backend: Object) -> bool:
    """Whether the backend Deployment says, or last said, that its replicas are KEDA's."""
    return memory.annotation(backend, names.REPLICAS_OWNER) == names.KEDA


def _weights(outcome: Plan | Unresolved, request: wire.CompositeRequest) -> Weights:
    """What the plan's weights are; without a plan, what those of the observed Job are."""
    job = _observed_job(request)
    if job is None if isinstance(outcome, Unresolved) else not _stages(outcome):
        return Weights.NOT_AWAITED
    return weights.judge(job or {}, _observed_claim(request) or {})


def _stages(plan: Plan) -> bool:
    return isinstance(plan.staging, Staging)


def _rendered(plan: Plan, state: Weights, request: wire.CompositeRequest) -> dict[Identity, Object]:
    """The plan's children, the Job among them, with what the world adds to them."""
    children = {objects.identity(child): child for child in render.children(plan)}
    if not isinstance(plan.staging, Staging):
        return children
    claim = _observed_claim(request) or {}
    claim_uid = weights.uid(claim)
    staged_on = claim_uid if state is Weights.STAGED else names.NO_CLAIM
    backend = _child(names.DEPLOYMENTS, names.backend, request)
    children[backend] = _annotated(children[backend], names.STAGED_ON, staged_on)
    job = _child(names.JOBS, names.prewarm, request)
    if (observed := memory.ours(job, request)) is not None:
        children[job] = memory.as_last_applied(job, observed)
    elif weights.can_be_put_on(claim):
        children[job] = prewarm.job(plan, plan.staging, claim_uid=claim_uid)
    return children


def _held_back(
    children: dict[Identity, Object], plan: Plan, request: wire.CompositeRequest
) -> dict[Identity, Object]:
    """The children while the weights are not there: a backend that exists stays as it is.

    What leads to it stays with it, where it is to become another: a gateway that knows the names
    and the port of the next engine would turn away the requests that the present one can serve.
    """
    backend = _child(names.DEPLOYMENTS, names.backend, request)
    observed = memory.ours(backend, request)
    if backend not in children or observed is None:
        return children
    kept = {backend}
    if _template_hash(children[backend]) != _template_hash(objects.last_applied(observed)):
        kept |= {
            _child(names.SERVICES, names.backend, request),
            _child(names.DEPLOYMENTS, names.gateway, request),
        }
    return {
        child: memory.as_last_applied(child, held)
        if child in kept and (held := memory.ours(child, request)) is not None
        else wanted
        for child, wanted in children.items()
    }


def _with_replicas(
    child: Object, observed: Object | None, *, restored: bool, handed_over: bool, usable: bool
) -> tuple[Object, ReplicasRule]:
    """The backend Deployment with the number of replicas that we may ask for, and why that one.

    Until the hand-over a rendered child keeps the number that it has, `scaling.min`. After it, and
    where a spec does not resolve or weights are not staged, the observed number is echoed: whoever
    wrote it knew better. A backend that is made before its weights are staged gets no replica.
    """
    kedas = handed_over or (observed is not None and is_marked(observed))
    rule = ReplicasRule.RENDERED
    if observed is None and not usable:
        rule, child = ReplicasRule.BEFORE_STAGING, _of_size(child, 0)
    elif kedas or restored or not usable:
        rule = ReplicasRule.STAGING
        if kedas or restored:
            rule = ReplicasRule.KEDAS if kedas else ReplicasRule.RESTORED
        child, known = _echoed(child, observed or {})
        rule = rule if known else ReplicasRule.UNKNOWN
    return (_annotated(child, names.REPLICAS_OWNER, names.KEDA) if kedas else child), rule


def _echoed(child: Object, observed: Object) -> tuple[Object, bool]:
    """The child with the number that is observed or remembered, and whether there is one."""
    number = objects.number(observed, "spec", "replicas")
    if number is None:
        number = objects.number(objects.last_applied(observed), "spec", "replicas")
    return (child, False) if number is None else (_of_size(child, number), True)


def _of_size(child: Object, replicas: int) -> Object:
    return {**child, "spec": {**objects.mapping(child, "spec"), "replicas": replicas}}


def _annotated(child: Object, name: str, value: str) -> Object:
    metadata = objects.mapping(child, "metadata")
    annotations = objects.mapping(metadata, "annotations") | {name: value}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def _template_hash(deployment: Object | None) -> str | None:
    template = objects.mapping(deployment, "spec", "template")
    return objects.annotation(template, names.TEMPLATE_HASH)


def _observed_job(request: wire.CompositeRequest) -> Object | None:
    return memory.ours(_child(names.JOBS, names.prewarm, request), request)


def _observed_claim(request: wire.CompositeRequest) -> Object | None:
    return memory.ours(_child(names.CLAIMS, names.cache, request), request)


def _child(
    group: GroupKey, name: Callable[[ServiceName], str], request: wire.CompositeRequest
) -> Identity:
    """The request's child of that group, whose name is made by one of `names`."""
    service = ServiceName(objects.text(request.parent, "metadata", "name"))
    namespace = objects.text(request.parent, "metadata", "namespace")
    return names.child(group, namespace, name(service))


def _differs(observed: Object | None, wanted: str) -> bool:
    """Whether an object exists that was made from another spec."""
    return observed is not None and memory.annotation(observed, names.SPEC_HASH) not in (
        None,
        wanted,
    )


def _withhold(
    children: dict[Identity, Object], request: wire.CompositeRequest
) -> tuple[dict[Identity, Object], list[Taken]]:
    """Parts the children into those whose names are free or ours, and the others."""
    ours, taken = {}, []
    for child, wanted in children.items():
        holder = memory.find(request.related, child)
        if holder is None or memory.ours(child, request) is not None:
            ours[child] = wanted
        else:
            taken.append(
                Taken(
                    kind=objects.text(wanted, "kind"),
                    name=objects.text(wanted, "metadata", "name"),
                    going=is_going(holder, request.parent),
                )
            )
    return ours, taken


def is_going(holder: Object, parent: Object) -> bool:
    """Whether a name's holder is being deleted, or was of an earlier namesake of ``parent``."""
    owner = objects.controller_of(holder)
    is_namesakes = objects.text(owner, "kind") == "LLMService" and objects.text(
        owner, "name"
    ) == objects.text(parent, "metadata", "name")
    return is_namesakes or bool(objects.text(holder, "metadata", "deletionTimestamp"))


def _kept(
    children: dict[Identity, Object], request: wire.CompositeRequest
) -> dict[Identity, Object]:
    """Observed claims and Jobs that the plan no longer asks for. They go when their service goes.

    The Job says what its claim holds: without it, weights that are wanted again would be fetched
    again.
    """
    return memory.restore(
        {
            group: {
                key: child
                for key, child in request.children.get(group, {}).items()
                if (group, key) not in children
            }
            for group in (names.CLAIMS, names.JOBS)
        }
    )
