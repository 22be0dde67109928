"""From what is observed and what is wanted to the writes that close the gap. Pure."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Iterable, Mapping

from tests.cluster.standin import merge, objects
from tests.cluster.standin.objects import Obj

IN_PLACE = "InPlace"
ON_DELETE = "OnDelete"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Create:
    """POST this object; that one of its name exists already is not an error."""

    obj: Obj


@dataclasses.dataclass(frozen=True, kw_only=True)
class Update:
    """PUT this object, which carries the resourceVersion that was observed."""

    obj: Obj


@dataclasses.dataclass(frozen=True, kw_only=True)
class Delete:
    """DELETE this very object, by uid."""

    obj: Obj


Action = Create | Update | Delete


def children(
    parent: Obj, observed: Iterable[Obj], wanted: Iterable[Obj], strategies: Mapping[str, str]
) -> list[Action]:
    """The writes that a sync's answer asks for, deletions first.

    ``strategies`` holds the update method by kind (as `objects.group_key_of` names it); what has
    been created is only ever updated under ``InPlace``. What is being deleted is left alone.
    """
    by_name = {(objects.group_key_of(o), objects.key_of(o)): o for o in observed}
    answer = {}
    for obj in wanted:
        child = in_namespace_of(parent, obj)
        answer[objects.group_key_of(child), objects.key_of(child)] = child
    unlisted = sorted({kind for kind, _ in answer} - set(strategies))
    if unlisted:
        raise objects.BadController(f"the hook returned {unlisted}, which its controller lacks")

    actions: list[Action] = [
        Delete(obj=obj)
        for name, obj in by_name.items()
        if name not in answer and not objects.deleting(obj)
    ]
    for name, child in answer.items():
        seen = by_name.get(name)
        if seen is None:
            actions.append(Create(obj=_owned(parent, child)))
        elif strategies[name[0]] == IN_PLACE and not objects.deleting(seen):
            merged = merge.apply(seen, child)
            if not objects.same(merged, seen):
                actions.append(Update(obj=merged))
    return actions


class Claim(enum.Enum):
    """What a Composite makes of an object of a child kind."""

    OURS = enum.auto()
    ADOPT = enum.auto()
    RELEASE = enum.auto()
    NOT_OURS = enum.auto()


def claim(parent: Obj, child: Obj) -> Claim:
    """Whose a child is. A parent that is being deleted keeps what it has and changes no owner."""
    namespace = objects.key_of(parent).namespace
    if namespace and objects.key_of(child).namespace != namespace:
        return Claim.NOT_OURS
    ref = objects.controller_ref(child)
    matches = objects.labels_of(child).get(objects.UID_LABEL) == objects.uid_of(parent)
    if ref is not None and ref["uid"] != objects.uid_of(parent):
        return Claim.NOT_OURS
    if ref is not None and matches:
        return Claim.OURS
    if objects.deleting(parent):
        return Claim.NOT_OURS
    if ref is not None:
        return Claim.RELEASE
    return Claim.ADOPT if matches and not objects.deleting(child) else Claim.NOT_OURS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoration:
    """A parent as a Decorator's answer wants it, at the version that was synced."""

    parent: Obj
    status_changed: bool


def decoration(
    parent: Obj,
    *,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
    status: Obj | None,
) -> Decoration | None:
    """What a Decorator's answer makes of its parent; None where it changes nothing.

    A label or annotation of None is removed, a status of None is left as it is.
    """
    changed = {
        "labels": changed_texts(objects.labels_of(parent), labels),
        "annotations": changed_texts(objects.annotations_of(parent), annotations),
    }
    texts = {name: after for name, after in changed.items() if after is not None}
    status_changed = status is not None and not objects.same(parent.get("status") or {}, status)
    if not texts and not status_changed:
        return None
    after = {**copy.deepcopy(parent), "metadata": {**parent["metadata"], **texts}}
    if status is not None:
        after["status"] = status
    return Decoration(parent=after, status_changed=status_changed)


def in_namespace_of(parent: Obj, child: Obj) -> Obj:
    """A copy of the child, in the parent's namespace if it named none itself."""
    out = copy.deepcopy(child)
    namespace = parent["metadata"].get("namespace")
    if namespace and not out["metadata"].get("namespace"):
        out["metadata"]["namespace"] = namespace
    return out


def selected(child: Obj, parent: Obj) -> Obj:
    """A copy of the child with the label by which ``generateSelector`` finds it again."""
    out = copy.deepcopy(child)
    uid = objects.uid_of(parent)
    labels = {objects.UID_LABEL: uid, **(out["metadata"].get("labels") or {})}
    if labels[objects.UID_LABEL] != uid:
        what = f"{objects.group_key_of(child)} {child['metadata']['name']}"
        raise objects.BadController(f"the hook gave {what} the label of another parent")
    out["metadata"]["labels"] = labels
    return out


def annotated(child: Obj, annotations: Mapping[str, str]) -> Obj:
    """A copy of the child with these annotations too."""
    out = copy.deepcopy(child)
    out["metadata"]["annotations"] = {**(out["metadata"].get("annotations") or {}), **annotations}
    return out


def changed_texts(
    current: Mapping[str, str], answer: Mapping[str, str | None]
) -> dict[str, str] | None:
    """Labels or annotations after a Decorator's answer, or None where it changes nothing."""
    after = dict(current)
    for name, value in answer.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
    return None if after == dict(current) else after


def _owned(parent: Obj, child: Obj) -> Obj:
    out = merge.with_last_applied(child, child)
    refs = out["metadata"].get("ownerReferences") or []
    out["metadata"]["ownerReferences"] = [*refs, objects.make_controller_ref(parent)]
    return out
