"""A cluster in which things happen at once: copies are stale, writes are cut short, users meddle.

Metacontroller reads from caches and writes object by object. What it writes is refused where the
object has changed since it was read, as an API server refuses it, and a write may be the last one
before it dies.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from hooks import wire
from hooks.autoscaling import sync as autoscaling
from hooks.k8s import objects
from hooks.llmservice import names
from hooks.llmservice import sync as llmservice
from tests.cluster.standin import plan
from tests.pure.hooks.world import COMPOSITE_KINDS, DECORATOR_KINDS, Obj, World, stamp

Key = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """One sync: what Metacontroller saw, what it was told, and what it wrote because of that."""

    body: Obj
    answer: Obj
    written: list[tuple[plan.Action, Obj | None]]  # With the object as it was before.


class LivingWorld(World):
    """The world, in which neither controller need see the present."""

    def __init__(self, parent: Obj, runtimes: list[Obj]) -> None:
        super().__init__(parent)
        self.runtimes = runtimes
        self.resolved: Obj = parent["spec"]  # The last spec that did.
        self._made = 0
        self._lives = 0

    # --- Metacontroller ---------------------------------------------------------------------------

    def sync_composite(self, body: Obj, *, writes: int | None = None) -> Asked:
        """Asks the Composite's hook ``body``, and writes no more than so many objects."""
        request = wire.load(wire.CompositeRequest, copy.deepcopy(body))
        answer = wire.dump(llmservice.sync(request, settings=self.settings, now=self.now))
        if body["parent"]["metadata"]["uid"] != self.parent["metadata"]["uid"]:
            return Asked(body=body, answer=answer, written=[])
        wanted = [plan.selected(child, body["parent"]) for child in answer["children"]]
        todo = plan.children(body["parent"], members(body["children"]), wanted, COMPOSITE_KINDS)
        written = self._write(self.owned, body["children"], todo[:writes])
        if writes is None:
            generation = body["parent"]["metadata"]["generation"]
            status = answer["status"] | {"observedGeneration": generation}
            if self.parent.get("status") != status:
                self.writes.append("status")
            self.parent["status"] = copy.deepcopy(status)
        return Asked(body=body, answer=answer, written=written)

    def sync_decorator(self, body: Obj, *, writes: int | None = None) -> Asked:
        """The same for the Decorator's; the parent is written before the attachments."""
        answer = wire.dump(
            autoscaling.sync(
                wire.load(wire.DecoratorRequest, copy.deepcopy(body)),
                now=self.now,
            )
        )
        if body["object"]["metadata"] != self.parent["metadata"]:
            return Asked(body=body, answer=answer, written=[])
        before = self.parent["metadata"].get("annotations", {})
        after = plan.changed_texts(before, answer["annotations"])
        if after is not None:
            self.writes.append("annotations")
            self.parent["metadata"]["annotations"] = after
        wanted = answer["attachments"]
        todo = plan.children(body["object"], members(body["attachments"]), wanted, DECORATOR_KINDS)
        written = self._write(self.attached, body["attachments"], todo[:writes])
        return Asked(body=body, answer=answer, written=written)

    def _write(
        self,
        world: dict[str, dict[str, Obj]],
        seen: dict[str, dict[str, Obj]],
        todo: list[plan.Action],
    ) -> list[tuple[plan.Action, Obj | None]]:
        held = {key_of(obj) for obj in self.foreign}
        written = []
        for action in todo:
            group, name = key_of(action.obj)
            now = world[group].get(name)
            if now != seen.get(group, {}).get(name) or (group, name) in held:
                continue  # A conflict, or AlreadyExists: another sync will see.
            written.append((action, copy.deepcopy(now)))
            self.writes.append(f"{type(action).__name__} {group.partition('.')[0]} {name}")
            if isinstance(action, plan.Delete):
                del world[group][name]
            else:
                world[group][name] = self._stored(action.obj, now)
        return written

    def _stored(self, obj: Obj, now: Obj | None) -> Obj:
        """As an API server keeps it: the uid is its own, the generation follows the spec."""
        out: Obj = json.loads(json.dumps(obj))
        metadata = out["metadata"]
        if now is None:
            self._made += 1
            metadata |= {"uid": f"uid-{self._made}", "creationTimestamp": stamp(self.now)}
            metadata["generation"] = 1
        elif now.get("spec") != out.get("spec"):
            metadata["generation"] = now["metadata"]["generation"] + 1
        return out

    # --- The rest of the cluster ------------------------------------------------------------------

    def backend(self) -> Obj | None:
        return self.owned[names.DEPLOYMENTS].get("ns/m-backend")

    def claim(self) -> Obj | None:
        return self.owned[names.CLAIMS].get("ns/m-cache")

    def kedas(self) -> Obj | None:
        """The ScaledObject."""
        (attached,) = self.attached.values()
        return attached.get("ns/m")

    def set_replicas(self, replicas: int) -> None:
        """Through the scale subresource."""
        backend = self.deployment("backend")
        if backend["spec"]["replicas"] != replicas:
            backend["spec"]["replicas"] = replicas
            backend["metadata"]["generation"] += 1
        self.count()

    def count(self) -> None:
        """The Deployment controller counts the backend's ready Pods."""
        backend = self.backend()
        if backend is None:
            return
        conditions = [
            c
            for pod in self.pods.values()
            if pod["metadata"]["labels"][names.LABEL_COMPONENT] == "backend"
            and "deletionTimestamp" not in pod["metadata"]
            for c in pod["status"].get("conditions", [])
        ]
        ready = sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        backend["status"] = {"replicas": backend["spec"]["replicas"], "readyReplicas": ready}

    def parent_is_replaced(self) -> None:
        """Deleted and made again at once: what it had is garbage, some of which is still there."""
        self._lives += 1
        for world in (self.owned, self.attached):
            for obj in members(world):
                obj["metadata"]["deletionTimestamp"] = stamp(self.now)
                self.foreign.append(obj)
            for kind in world:
                world[kind] = {}
        self.pods.clear()
        metadata = self.parent["metadata"]
        metadata["uid"] = f"uid-of-life-{self._lives}"
        metadata["generation"] = 1
        metadata.get("annotations", {}).pop(names.AUTOSCALING, None)
        self.parent.pop("status", None)


def members(groups: dict[str, dict[str, Obj]]) -> list[Obj]:
    return [obj for group in groups.values() for obj in group.values()]


def key_of(obj: Obj) -> Key:
    return objects.identity(obj)


def keys_of(answer: list[Obj]) -> set[Key]:
    return {key_of(obj) for obj in answer}


def observed_keys(groups: dict[str, dict[str, Obj]]) -> set[Key]:
    return {(group, name) for group, held in groups.items() for name in held}


def turned(value: Any) -> Any:
    """``value`` with its keys the other way round, as another map of Go's would give them."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    return [turned(item) for item in value] if isinstance(value, list) else value
