"""Metacontroller itself: asks the hooks about one LLMService until nothing changes any more."""

import dataclasses
import datetime
from collections.abc import Sequence

from hooks import wire
from hooks.autoscaling import sync as autoscaling
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import sync as llmservice
from hooks.settings import Settings
from local import world

# A parent, its gateway and its scaler settle in three or four rounds. More is a bug of the hooks:
# an answer that differs from itself, which on a cluster would be written for ever.
MOST_ROUNDS = 20


class Unsettled(AssertionError):
    """The hooks do not come to rest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """An LLMService and the objects around it."""

    parent: Object
    runtimes: Sequence[Object]
    children: Sequence[Object] = ()
    attachments: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    resync_after_seconds: float = 0
    """When to ask again although nothing happened; 0: no need."""

    def deployment(self, name: str) -> Object | None:
        return next(
            (
                child
                for child in self.children
                if child["kind"] == "Deployment" and child["metadata"]["name"] == name
            ),
            None,
        )

    def with_deployment(self, deployment: Object) -> "World":
        """It takes the place of its namesake."""
        name = deployment["metadata"]["name"]
        before = self.deployment(name)
        children = [deployment if child is before else child for child in self.children]
        return dataclasses.replace(self, children=children)

    @property
    def scaled_object(self) -> Object | None:
        return next(iter(self.attachments), None)

    def with_autoscaler_status(self, status: Object) -> "World":
        attachments = [{**attachment, "status": status} for attachment in self.attachments]
        return dataclasses.replace(self, attachments=attachments)


def settle(held: World, *, settings: Settings, now: datetime.datetime) -> World:
    """What becomes of the world when both controllers have synced as often as it takes."""
    for _ in range(MOST_ROUNDS):
        after = _decorated(_composed(held, settings, now), now)
        if after == held:
            return held
        held = after
    name = objects.identity(held.parent).key
    raise Unsettled(f"{name}: {MOST_ROUNDS} syncs in a row each changed something")


def _composed(held: World, settings: Settings, now: datetime.datetime) -> World:
    body = {
        "parent": held.parent,
        "children": world.grouped(world.CHILD_KINDS, held.children),
        "related": _related(held, llmservice.customize(_question(held))),
    }
    request = wire.load(wire.CompositeRequest, body)
    answer = llmservice.sync(request, settings=settings, now=now)
    generation = held.parent["metadata"]["generation"]
    status = {**answer.status, "observedGeneration": generation}
    return dataclasses.replace(
        held,
        parent={**held.parent, "status": status},
        children=world.applied(held.parent, held.children, answer.children, now=now),
        resync_after_seconds=answer.resync_after_seconds,
    )


def _decorated(held: World, now: datetime.datetime) -> World:
    body = {
        "object": held.parent,
        "attachments": world.grouped(world.ATTACHMENT_KINDS, held.attachments),
        "related": _related(held, autoscaling.customize(_question(held))),
    }
    answer = autoscaling.sync(wire.load(wire.DecoratorRequest, body), now=now)
    metadata = held.parent["metadata"]
    annotations = {**metadata.get("annotations", {}), **answer.annotations}
    delays = (held.resync_after_seconds, answer.resync_after_seconds)
    return dataclasses.replace(
        held,
        parent={**held.parent, "metadata": {**metadata, "annotations": annotations}},
        attachments=world.applied(held.parent, held.attachments, answer.attachments, now=now),
        resync_after_seconds=min((delay for delay in delays if delay), default=0),
    )


def _question(held: World) -> wire.CustomizeRequest:
    return wire.load(wire.CustomizeRequest, {"parent": held.parent})


def _related(held: World, asked: wire.CustomizeResponse) -> world.Groups:
    everything = [*held.runtimes, *held.children, *held.attachments, *held.pods]
    return world.select(everything, asked.related_resources)
