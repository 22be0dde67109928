"""Metacontroller's part: the objects around one LLMService, and what syncing them makes of them.

Nobody but this runner writes to these objects, so applying an answer is simpler than on a cluster:
it replaces what the hooks own and keeps what a cluster's other writers own (identity, status, and
whatever stands in a field that the answer leaves out).
"""

import datetime
from collections.abc import Iterable, Sequence

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Object

Groups = dict[str, dict[str, Object]]

# The kinds that the shipped controllers list; each is a group of every request, empty or not.
CHILD_KINDS = tuple(
    map(
        GroupKey,
        (
            "Deployment.apps/v1",
            "PodDisruptionBudget.policy/v1",
            "Service.v1",
            "ServiceAccount.v1",
            "RoleBinding.rbac.authorization.k8s.io/v1",
            "PersistentVolumeClaim.v1",
            "Job.batch/v1",
        ),
    )
)
ATTACHMENT_KINDS = (GroupKey("ScaledObject.keda.sh/v1alpha1"),)


def select(held: Iterable[Object], rules: Iterable[wire.RelatedRule]) -> Groups:
    """The related objects that the rules ask for; a kind without a match has no group."""
    groups: Groups = {}
    everything = list(held)
    for rule in rules:
        for obj in everything:
            if _matches(obj, rule):
                group, key = objects.identity(obj)
                groups.setdefault(group, {})[key] = obj
    return groups


def grouped(kinds: Iterable[GroupKey], held: Iterable[Object]) -> Groups:
    groups: Groups = {kind: {} for kind in kinds}
    for obj in held:
        group, key = objects.identity(obj)
        groups[group][key] = obj
    return groups


def applied(
    parent: Object, held: Sequence[Object], wanted: Sequence[Object], *, now: datetime.datetime
) -> list[Object]:
    """The children after an answer: one that is left out is deleted."""
    before = {objects.identity(obj): obj for obj in held}
    return [
        _applied(parent, before.get(objects.identity(obj)), obj, now)
        for obj in (_placed(parent, obj) for obj in wanted)
    ]


def _placed(parent: Object, obj: Object) -> Object:
    """With the parent's namespace, which an answer may leave out."""
    namespace = objects.text(parent, "metadata", "namespace")
    return {**obj, "metadata": {"namespace": namespace, **objects.mapping(obj, "metadata")}}


def _applied(
    parent: Object, observed: Object | None, wanted: Object, now: datetime.datetime
) -> Object:
    remembered = {objects.LAST_APPLIED: objects.compact(wanted)}
    annotations = {**objects.mapping(wanted, "metadata", "annotations"), **remembered}
    if observed is None:
        return {
            **wanted,
            **_born(wanted),
            "metadata": {
                **wanted["metadata"],
                "annotations": annotations,
                "uid": f"uid-of-{wanted['kind']}-{wanted['metadata']['name']}".lower(),
                "creationTimestamp": objects.format_time(now),
                "generation": 1,
                "ownerReferences": [_owner(parent)],
            },
        }
    kept = ("uid", "creationTimestamp", "generation", "ownerReferences")
    metadata = {name: observed["metadata"][name] for name in kept}
    fresh = {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations, **metadata}}
    if "status" in observed:
        fresh["status"] = observed["status"]
    if fresh.get("spec") != observed.get("spec"):
        metadata_generation = objects.number(observed, "metadata", "generation") or 1
        fresh["metadata"]["generation"] = metadata_generation + 1
    return fresh


def _born(obj: Object) -> Object:
    """The status that others than us give an object as soon as it exists, where it matters."""
    match objects.text(obj, "kind"):
        case "PersistentVolumeClaim":
            return {"status": {"phase": "Bound"}}  # A folder of this machine; always there.
        case "ScaledObject":
            ready = {"type": "Ready", "status": "Unknown", "reason": "ScalerStarting"}
            return {"status": {"conditions": [{**ready, "message": "The scaler is being asked."}]}}
        case _:
            return {}


def _owner(parent: Object) -> Object:
    return {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": parent["metadata"]["name"],
        "uid": parent["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _matches(obj: Object, rule: wire.RelatedRule) -> bool:
    if objects.text(obj, "apiVersion") != rule.api_version:
        return False
    if _plural(objects.text(obj, "kind")) != rule.resource:
        return False
    if rule.namespace and objects.text(obj, "metadata", "namespace") != rule.namespace:
        return False
    if rule.names is not None and objects.text(obj, "metadata", "name") not in rule.names:
        return False
    labels = objects.mapping(obj, "metadata", "labels")
    wanted = objects.mapping(rule.label_selector, "matchLabels")
    return all(labels.get(name) == value for name, value in wanted.items())


def _plural(kind: str) -> str:
    """The resource of the kinds that are dealt with here."""
    return f"{kind.lower()}s"
