"""One running controller: its watches, its queue and the workers that sync parents."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping

from tests.cluster.standin import apply, hook, objects, plan, responses
from tests.cluster.standin.client import ApiError, Client
from tests.cluster.standin.informer import Informer, Informers
from tests.cluster.standin.objects import BadController, Key, Obj, Resource
from tests.cluster.standin.related import Related
from tests.cluster.standin.workqueue import WorkQueue

_log = logging.getLogger(__name__)

_WORKERS = 2

# Every way in which a sync fails; the parent is tried again after its backoff.
_FAILURES = (ApiError, BadController, apply.SyncFailed, hook.HookFailed, responses.BadResponse)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What a sync needs besides its parent."""

    client: Client
    controller: Obj
    sync_hook: hook.Hook
    parent: Informer
    children: Mapping[str, Informer]
    strategies: Mapping[str, str]
    related: Related

    @property
    def resources(self) -> dict[str, Resource]:
        """The child kinds by `objects.group_key_of`."""
        return {kind: informer.resource for kind, informer in self.children.items()}


Sync = Callable[[Setup, Obj], float]
"""Sync one parent; answers after how many seconds to look again, 0 for never."""


class Runner:
    """A started controller. Runs until `stop`."""

    def __init__(
        self, informers: Informers, controller: Obj, parent: Obj, child_rules: list[Obj], sync: Sync
    ) -> None:
        """Look all kinds up and start; raises where one is missing or the spec is unsupported.

        ``parent`` and ``child_rules`` are the resource rules of the controller's spec.
        """
        sync_hook = hook.from_spec(controller, "sync", informers)
        if sync_hook is None or "finalize" in controller["spec"]["hooks"]:
            raise BadController("the stand-in needs a sync hook and serves no finalize hook")
        customize = hook.from_spec(controller, "customize", informers)
        self._name = f"{controller['kind']} {controller['metadata']['name']}"
        self._sync = sync
        self._queue: WorkQueue[Key] = WorkQueue()
        children = [(informers.get(r["apiVersion"], r["resource"]), r) for r in child_rules]
        self._setup = Setup(
            client=informers.client,
            controller=controller,
            sync_hook=sync_hook,
            parent=informers.get(parent["apiVersion"], parent["resource"]),
            children={informer.resource.group_key: informer for informer, _ in children},
            strategies={i.resource.group_key: _strategy(rule) for i, rule in children},
            related=Related(informers, customize, controller, self._queue.add),
        )
        self._start()

    def stop(self) -> None:
        """Hear of nothing more and start no further sync; one that runs is finished."""
        self._setup.parent.unsubscribe(self._parent_changed)
        for informer in self._setup.children.values():
            informer.unsubscribe(self._child_changed)
        self._setup.related.close()
        self._queue.close()

    def _start(self) -> None:
        self._setup.parent.subscribe(self._parent_changed)
        for informer in self._setup.children.values():
            informer.subscribe(self._child_changed)
        for parent in self._setup.parent.all():
            self._queue.add(objects.key_of(parent))
        for number in range(_WORKERS):
            name = f"{self._name} {number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def _parent_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is not None:
            self._queue.add(objects.key_of(after))
        elif before is not None:
            self._setup.related.forget(objects.uid_of(before))

    def _child_changed(self, before: Obj | None, after: Obj | None) -> None:
        for child in (before, after):
            if child is not None:
                for parent in self._parents_of(child):
                    self._queue.add(parent)

    def _parents_of(self, child: Obj) -> list[Key]:
        """The parent that controls the child; for an orphan, one whose label it carries."""
        ref = objects.controller_ref(child)
        uid = ref["uid"] if ref else objects.labels_of(child).get(objects.UID_LABEL)
        parents = self._setup.parent.all() if uid else []
        return [objects.key_of(p) for p in parents if objects.uid_of(p) == uid]

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            try:
                self._sync_one(key)
            finally:
                self._queue.done(key)

    def _sync_one(self, key: Key) -> None:
        parent = self._setup.parent.get(key)
        if parent is None:
            self._queue.forget(key)
            return
        try:
            look_again = self._sync(self._setup, parent)
        except hook.RetryLater as e:
            self._queue.add(key, after=e.seconds)
            _log.info("%s: %s: %s", self._name, key, e)
        except _FAILURES as e:
            wait = self._queue.fail(key)
            _log.warning("%s: sync of %s failed, again in %.3g s: %s", self._name, key, wait, e)
        else:
            self._queue.forget(key)
            if look_again > 0:
                self._queue.add(key, after=look_again)


def _strategy(rule: Obj) -> str:
    method = str((rule.get("updateStrategy") or {}).get("method") or plan.ON_DELETE)
    if method not in {plan.ON_DELETE, plan.IN_PLACE}:
        raise BadController(f"update strategy {method} of {rule['resource']} is not served here")
    return method
