"""A claim that is not the one any more, which holds no weights (rule 6)."""

from __future__ import annotations

import json

from hooks import wire
from hooks.autoscaling import render as autoscaling
from hooks.autoscaling.sync import sync as sync_of_keda
from hooks.llmservice import names
from hooks.llmservice.sync import sync
from tests.pure.hooks.staging.moments import asleep, awake, copied, is_paused
from tests.pure.hooks.world import NOON, SETTINGS


def test_while_the_claim_is_not_seen_the_job_stays_as_it_was() -> None:
    world = awake()
    job = json.dumps(world.job())
    request = world.composite_request()
    for group in (request["children"], request["related"]):
        group[names.CLAIMS] = {}
    answer = wire.dump(sync(wire.load(wire.CompositeRequest, request), settings=SETTINGS, now=NOON))
    (told,) = (child for child in answer["children"] if child["kind"] == "Job")
    assert told["spec"] == json.loads(job)["spec"]
    (backend,) = (
        c
        for c in answer["children"]
        if c["metadata"]["name"] == "m-backend" and c["kind"] == "Deployment"
    )
    assert backend["spec"]["replicas"] == 1


def test_a_replaced_claim_under_a_running_engine_stops_nothing() -> None:
    world = awake()
    world.claim_is_replaced()
    assert world.settle() == []
    assert world.ready() == ("Ready", "True", "Available")
    assert not is_paused(world)


def test_a_replaced_claim_at_zero_keeps_keda_from_starting_a_replica() -> None:
    world = asleep()
    scaled_object = copied(world)["ScaledObject.keda.sh/v1alpha1"]["ns/m"]["spec"]
    world.claim_is_replaced()
    world.settle()
    assert is_paused(world)
    assert world.scaled_object()["spec"] == scaled_object
    assert world.ready() == ("Degraded", "False", "CacheReplaced")
    assert "kubectl delete job m-prewarm -n ns" in world.condition("Ready")["message"]


def test_a_claim_that_is_not_seen_yet_pauses_nothing() -> None:
    """A Metacontroller that has just started sees kind after kind."""
    world = asleep()
    request = world.decorator_request()
    request["related"][names.CLAIMS] = {}
    (told,) = sync_of_keda(wire.load(wire.DecoratorRequest, request), now=NOON).attachments
    assert autoscaling.PAUSED_SCALE_OUT not in told["metadata"].get("annotations", {})


def test_the_pause_ends_when_the_weights_are_staged_again_and_not_before() -> None:
    world = asleep()
    world.claim_is_replaced()
    world.settle()
    world.job_is_deleted()
    world.settle()
    assert is_paused(world)
    assert world.ready() == ("Loading", "False", "Prewarming")
    world.job_ends(complete=True)
    world.settle()
    assert not is_paused(world)
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")


def test_the_pause_holds_under_a_mistake_and_through_an_outage() -> None:
    world = asleep()
    world.claim_is_replaced()
    world.edit(typo=1)
    world.settle()
    assert is_paused(world)
    world.gateway_becomes(available=False)
    world.settle()
    assert is_paused(world)


def test_a_pause_of_somebody_else_stays_theirs() -> None:
    world = asleep()
    world.scaled_object()["metadata"].setdefault("annotations", {})[
        autoscaling.PAUSED_SCALE_OUT
    ] = "true"
    assert world.settle() == []
    assert is_paused(world)
