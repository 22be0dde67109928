"""The writes of one sync: children, owner references, and the parent's own fields."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping

from tests.cluster.standin import objects, plan
from tests.cluster.standin.client import ApiError, Client
from tests.cluster.standin.objects import Key, Obj, Resource

_log = logging.getLogger(__name__)

_PARENT_ATTEMPTS = 5

_Change = Callable[[Obj], Obj | None]
"""From the parent as it is to the parent as it should be; None when it is so already."""


class SyncFailed(Exception):
    """Some writes of a sync were refused; the others were made, and the sync is tried again."""


def children(
    client: Client, resources: Mapping[str, Resource], todo: Iterable[plan.Action]
) -> None:
    """Carry the actions out, all of them, and raise `SyncFailed` at the end if any was refused.

    Not failures: a name that is taken (the hook can see whose it is), an object that changed
    since it was seen (its event brings the next sync), one that is gone already.
    """
    refused = []
    for action in todo:
        resource = resources[objects.group_key_of(action.obj)]
        key = objects.key_of(action.obj)
        what = f"{type(action).__name__} {resource.plural} {key}"
        try:
            _carry_out(client, resource, key, action)
            _log.info("%s", what)
        except ApiError as e:
            if e.reason not in {"AlreadyExists", "Conflict", "NotFound"} or e.status == 0:
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


def adopt(client: Client, resource: Resource, parent: Obj, child: Obj) -> Obj:
    """Make the parent the controller of a child that has none."""
    refs = child["metadata"].get("ownerReferences") or []
    return _write_owners(client, resource, child, [*refs, objects.make_controller_ref(parent)])


def release(client: Client, resource: Resource, parent: Obj, child: Obj) -> None:
    """Take the parent's owner reference off a child that no longer matches its selector."""
    refs = child["metadata"].get("ownerReferences") or []
    left = [ref for ref in refs if ref["uid"] != objects.uid_of(parent)]
    _write_owners(client, resource, child, left)


def _write_owners(client: Client, resource: Resource, child: Obj, refs: list[Obj]) -> Obj:
    out = copy.deepcopy(child)
    out["metadata"]["ownerReferences"] = refs
    return client.replace(resource, objects.key_of(child), out)


def status(client: Client, resource: Resource, parent: Obj, wanted: Obj) -> None:
    """Replace the parent's status where it differs, on top of whatever the parent is by now."""

    def change(current: Obj) -> Obj | None:
        if objects.same(current.get("status") or {}, wanted):
            return None
        return {**current, "status": wanted}

    _update(client, resource, parent, change, status=resource.has_status)


def metadata(
    client: Client,
    resource: Resource,
    parent: Obj,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
) -> None:
    """Set and remove a parent's labels and annotations where they differ."""

    def change(current: Obj) -> Obj | None:
        changed = {
            "labels": plan.changed_texts(objects.labels_of(current), labels),
            "annotations": plan.changed_texts(objects.annotations_of(current), annotations),
        }
        after = {name: texts for name, texts in changed.items() if texts is not None}
        return {**current, "metadata": {**current["metadata"], **after}} if after else None

    _update(client, resource, parent, change)


def _update(
    client: Client,
    resource: Resource,
    parent: Obj,
    change: _Change,
    *,
    status: bool = False,
) -> None:
    """Write a changed parent: if what was synced differs, change what the parent is by now."""
    key = objects.key_of(parent)
    if change(parent) is None:
        return
    for attempt in range(_PARENT_ATTEMPTS):
        try:
            current = client.get(resource, key)
            after = change(current)
            # A namesake is not the object that was synced: that one is gone.
            if after is not None and objects.uid_of(current) == objects.uid_of(parent):
                client.replace(resource, key, after, status=status)
            return
        except ApiError as e:
            if e.reason != "Conflict" or attempt == _PARENT_ATTEMPTS - 1:
                raise SyncFailed(f"{resource.plural} {key}: {e}") from e
