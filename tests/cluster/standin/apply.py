"""The writes of one sync: children, owner references, and the parent's own fields."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from tests.cluster.standin import objects, plan
from tests.cluster.standin.client import ApiError, Client
from tests.cluster.standin.objects import Key, Obj, Resource

_log = logging.getLogger(__name__)

_ATTEMPTS = 5

_Change = Callable[[Obj], Obj | None]
"""From an object as it is to the object as it should be; None when it is so already."""

# Not failures: a name that is taken (the hook can see whose it is), an object that changed since
# it was seen (its event brings the next sync), one that is gone already.
_SWALLOWED: dict[type[plan.Action], frozenset[str]] = {
    plan.Create: frozenset({"AlreadyExists"}),
    plan.Update: frozenset({"Conflict", "NotFound"}),
    plan.Delete: frozenset({"NotFound"}),
}


class SyncFailed(Exception):
    """Some writes of a sync were refused; the others were made, and the sync is tried again."""


def children(
    client: Client, resources: Mapping[str, Resource], todo: Iterable[plan.Action]
) -> None:
    """Carry the actions out, all of them, and raise `SyncFailed` at the end if any was refused."""
    refused = []
    for action in todo:
        resource = resources[objects.group_key_of(action.obj)]
        key = objects.key_of(action.obj)
        what = f"{type(action).__name__} {resource.plural} {key}"
        try:
            _carry_out(client, resource, key, action)
            _log.info("%s", what)
        except ApiError as e:
            if e.reason not in _SWALLOWED[type(action)]:
                refused.append(f"{what}: {e}")
            else:
                _log.info("%s: %s", what, e.reason)
    if refused:
        raise SyncFailed("; ".join(refused))


def _carry_out(client: Client, resource: Resource, key: Key, action: plan.Action) -> None:
    match action:
        case plan.Create(obj=obj):
            client.create(resource, obj)
        case plan.Update(obj=obj):
            client.replace(resource, key, obj)
        case plan.Delete(obj=obj):
            client.delete(resource, key, objects.uid_of(obj))


def adopt(
    client: Client, parent_resource: Resource, parent: Obj, resource: Resource, child: Obj
) -> None:
    """Make the parent the controller of a child that has none.

    Only a parent that still lives may: it is read again, past every cache.
    """
    fresh = client.get(parent_resource, objects.key_of(parent))
    if objects.uid_of(fresh) != objects.uid_of(parent) or objects.deleting(fresh):
        raise SyncFailed(f"{objects.key_of(parent)} is gone and adopts nothing more")

    def change(current: Obj) -> Obj:
        refs = current["metadata"].get("ownerReferences") or []
        others = [ref for ref in refs if ref["uid"] != objects.uid_of(parent)]
        return _with_owners(current, [*others, objects.make_controller_ref(parent)])

    _update(client, resource, child, change)


def release(client: Client, resource: Resource, parent: Obj, child: Obj) -> None:
    """Take the parent's owner reference off a child that no longer matches its selector."""

    def change(current: Obj) -> Obj:
        refs = current["metadata"].get("ownerReferences") or []
        return _with_owners(current, [r for r in refs if r["uid"] != objects.uid_of(parent)])

    try:
        _update(client, resource, child, change)
    except ApiError as e:
        if e.reason not in {"NotFound", "Gone"}:
            raise


def _with_owners(obj: Obj, refs: list[Obj]) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": refs}}


def status(client: Client, resource: Resource, parent: Obj, wanted: Obj) -> None:
    """Replace a Composite parent's status where it differs, whatever else the parent is by now."""

    def change(current: Obj) -> Obj | None:
        if objects.same(current.get("status") or {}, wanted):
            return None
        return {**current, "status": wanted}

    try:
        _update(client, resource, parent, change, status=resource.has_status)
    except ApiError as e:
        if e.reason not in {"Conflict", "NotFound"}:
            raise


def decorate(client: Client, resource: Resource, wanted: plan.Decoration) -> bool:
    """Write a Decorator's parent; False where it has changed meanwhile, which ends the sync.

    Its status first, where that changed, and then all of it, so that a Decorator that sets no
    label needs the right to update its parents nevertheless.
    """
    parent, key = wanted.parent, objects.key_of(wanted.parent)
    try:
        if wanted.status_changed and resource.has_status:
            written = client.replace(resource, key, parent, status=True)
            version = {"resourceVersion": written["metadata"]["resourceVersion"]}
            parent = {**parent, "metadata": {**parent["metadata"], **version}}
        client.replace(resource, key, parent)
    except ApiError as e:
        if e.reason not in {"Conflict", "NotFound"}:
            raise
        _log.info("%s %s: %s", resource.plural, key, e.reason)
        return False
    return True


def _update(
    client: Client, resource: Resource, obj: Obj, change: _Change, *, status: bool = False
) -> None:
    """Change what an object is by now, as the API server has it; an `ApiError` where it is gone."""
    key = objects.key_of(obj)
    for attempt in range(_ATTEMPTS):
        current = client.get(resource, key)
        if objects.uid_of(current) != objects.uid_of(obj):
            raise ApiError(404, "NotFound", f"{key} is another object by now")
        after = change(current)
        if after is None:
            return
        try:
            client.replace(resource, key, after, status=status)
        except ApiError as e:
            if e.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                raise
        else:
            return
