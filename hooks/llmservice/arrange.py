"""What may be applied to the world as it is: the rules that keep mistakes from destroying things.

- A spec that does not resolve gives back every child as it was last applied.
- Nobody lowers the backend's replicas but KEDA, once the number was handed over.
- A claim stays as long as its service does, whatever the spec says.
- A name that is held by an object which is not ours is left alone.
"""

import dataclasses
import enum

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Object, ObjectKey
from hooks.llmservice import names, render
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import Plan, Unresolved
from hooks.llmservice.reasons import Reason


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
    UNKNOWN = "as rendered: no number is observed or remembered"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrangement:
    """The children of the answer, and those that cannot be made."""

    children: list[Object]
    taken: tuple[Taken, ...]
    replicas_rule: ReplicasRule


def check_claims(plan: Plan, request: wire.CompositeRequest) -> Plan | Unresolved:
    """Unresolved where a claim exists that was made from another spec than the plan's."""
    for child in render.children(plan):
        wanted = objects.annotation(child, names.SPEC_HASH)
        observed = _ours(child, request)
        if wanted is None or observed is None:
            continue
        if _remembered_annotation(observed, names.SPEC_HASH) not in (None, wanted):
            name = objects.text(child, "metadata", "name")
            return Unresolved(
                reason=Reason.CACHE_SPEC_CHANGED,
                message=f"claim {name} was made from another spec.cache (strategy, size or"
                f" storageClassName); change it back, or lose the weights on the claim with"
                f" kubectl delete pvc {name}",
            )
    return plan


def arrange(
    outcome: Plan | Unresolved, request: wire.CompositeRequest, *, handed_over: bool
) -> Arrangement:
    """The children to answer with. ``handed_over``: the backend's replicas are KEDA's."""
    taken: list[Taken] = []
    restored = isinstance(outcome, Unresolved)
    if isinstance(outcome, Unresolved):
        children = restore(request.children)
    else:
        children, taken = _withhold(render.children(outcome), request)
        children += _kept_claims(children, request)
    backend = names.backend(ServiceName(objects.text(request.parent, "metadata", "name")))
    rule = ReplicasRule.WITHOUT
    for index, child in enumerate(children):
        if _is_deployment(child, backend):
            children[index], rule = _with_replicas(
                child, _ours(child, request), restored=restored, handed_over=handed_over
            )
    return Arrangement(children=children, taken=tuple(taken), replicas_rule=rule)


def restore(observed: dict[str, dict[str, Object]]) -> list[Object]:
    """Every observed child as it was last applied."""
    return [
        _as_last_applied(GroupKey(group), ObjectKey(key), child)
        for group, members in sorted(observed.items())
        for key, child in sorted(members.items())
    ]


def is_marked(backend: Object) -> bool:
    """Whether the backend Deployment says, or last said, that its replicas are KEDA's."""
    return _remembered_annotation(backend, names.REPLICAS_OWNER) == names.KEDA


def _as_last_applied(group: GroupKey, key: ObjectKey, observed: Object) -> Object:
    """The child that Metacontroller remembers, under the identity that it has.

    Where nothing is remembered, an object without fields: merged with what is observed, it changes
    nothing and still keeps the child.
    """
    kind, _, api_version = group.partition(".")
    namespace, _, name = key.rpartition("/")
    remembered = objects.last_applied(observed) or {}
    metadata = objects.mapping(remembered, "metadata")
    identity = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        **remembered,
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, **identity},
    }


def _with_replicas(
    child: Object, observed: Object | None, *, restored: bool, handed_over: bool
) -> tuple[Object, ReplicasRule]:
    """The backend Deployment with the number of replicas that we may ask for, and why that one.

    Until the hand-over a rendered child keeps the number that it has, `scaling.min`. After it, and
    where a spec does not resolve, the observed number is echoed: whoever wrote it knew better.
    """
    kedas = handed_over or (observed is not None and is_marked(observed))
    number = objects.number(observed, "spec", "replicas")
    if number is None:
        number = objects.number(objects.last_applied(observed or {}), "spec", "replicas")
    rule = ReplicasRule.RENDERED
    if kedas or restored:
        rule = ReplicasRule.KEDAS if kedas else ReplicasRule.RESTORED
        if number is None:
            rule = ReplicasRule.UNKNOWN
        else:
            child = {**child, "spec": {**objects.mapping(child, "spec"), "replicas": number}}
    if kedas:
        metadata = objects.mapping(child, "metadata")
        annotations = objects.mapping(metadata, "annotations") | {names.REPLICAS_OWNER: names.KEDA}
        child = {**child, "metadata": {**metadata, "annotations": annotations}}
    return child, rule


def _is_deployment(child: Object, name: str) -> bool:
    return (
        objects.group_key(child) == names.DEPLOYMENTS
        and objects.text(child, "metadata", "name") == name
    )


def _withhold(
    children: list[Object], request: wire.CompositeRequest
) -> tuple[list[Object], list[Taken]]:
    """Parts the children into those whose names are free or ours, and the others."""
    ours, taken = [], []
    for child in children:
        holder = _find(request.related, child)
        if holder is None or _ours(child, request) is not None:
            ours.append(child)
        else:
            taken.append(
                Taken(
                    kind=objects.text(child, "kind"),
                    name=objects.text(child, "metadata", "name"),
                    going=_is_going(holder, request.parent),
                )
            )
    return ours, taken


def _ours(child: Object, request: wire.CompositeRequest) -> Object | None:
    """The observed object that is this child, if any.

    One of ours that is only among the related ones was not claimed yet; Metacontroller finds it at
    its next look.
    """
    if (observed := _find(request.children, child)) is not None:
        return observed
    held = _find(request.related, child)
    owner = objects.text(objects.controller_of(held or {}), "uid")
    return held if owner and owner == objects.text(request.parent, "metadata", "uid") else None


def _is_going(holder: Object, parent: Object) -> bool:
    owner = objects.controller_of(holder)
    is_namesakes = objects.text(owner, "kind") == "LLMService" and objects.text(
        owner, "name"
    ) == objects.text(parent, "metadata", "name")
    return is_namesakes or bool(objects.text(holder, "metadata", "deletionTimestamp"))


def _kept_claims(children: list[Object], request: wire.CompositeRequest) -> list[Object]:
    """Observed claims that the plan no longer asks for. They go when their service goes."""
    rendered = {objects.object_key(c) for c in children if objects.group_key(c) == names.CLAIMS}
    claims = request.children.get(names.CLAIMS, {})
    return restore({names.CLAIMS: {key: c for key, c in claims.items() if key not in rendered}})


def _remembered_annotation(observed: Object, name: str) -> str | None:
    """An annotation of ours, also where somebody removed it from the object."""
    value = objects.annotation(observed, name)
    return value if value is not None else objects.annotation(objects.last_applied(observed), name)


def _find(groups: dict[str, dict[str, Object]], child: Object) -> Object | None:
    return groups.get(objects.group_key(child), {}).get(objects.object_key(child))
