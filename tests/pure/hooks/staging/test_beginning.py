"""From nothing to serving: no replica starts before its weights are staged (rule 3)."""

from __future__ import annotations

import pytest

from hooks.llmservice import names
from tests.pure.hooks.staging.moments import (
    asleep,
    awake,
    replicas,
    staged,
    staging,
    world_of,
)


def test_the_job_is_made_once_its_claim_is_seen_and_carries_its_uid() -> None:
    world = world_of()
    world.run_composite()
    assert "ns/m-prewarm" not in world.owned[names.JOBS]
    world.run_composite()
    uid = world.owned[names.CLAIMS]["ns/m-cache"]["metadata"]["uid"]
    assert world.job()["metadata"]["annotations"][names.CLAIM_UID] == uid


@pytest.mark.parametrize("least", [0, 2])
def test_no_replica_is_asked_for_and_nothing_is_attached_until_weights_are_staged(
    least: int,
) -> None:
    world = staging(scaling={"min": least, "max": 2})
    assert replicas(world) == 0
    assert names.AUTOSCALING not in world.parent["metadata"].get("annotations", {})
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert world.condition("AutoscalingReady")["reason"] == "Prewarming"
    world.job_ends(complete=True)
    world.settle()
    assert replicas(world) == least
    assert world.scaled_object()["spec"]["minReplicaCount"] == least


def test_staging_complete_without_keda_starts_the_minimum() -> None:
    world = world_of(scaling={"min": 1, "max": 1})
    for _ in range(3):
        world.run_composite()
    assert replicas(world) == 0
    world.job_ends(complete=True)
    world.run_composite()
    assert replicas(world) == 1


def test_a_number_that_somebody_wrote_while_weights_are_staged_is_echoed() -> None:
    world = staging()
    world.scale(3)
    world.settle()
    assert replicas(world) == 3


def test_prewarming_names_the_logs_to_read() -> None:
    world = staging()
    running = {"name": "fetcher", "state": {"running": {}}}
    world.add_prewarm_pod("m-prewarm-a", "Running", containerStatuses=[running])
    world.settle()
    message = world.condition("Ready")["message"]
    assert "kubectl logs -n ns job/m-prewarm --follow" in message


def test_a_job_without_a_pod_says_where_to_look() -> None:
    """A quota or Pod Security refuses it, and only an Event says so."""
    message = staging().condition("Ready")["message"]
    assert "kubectl describe job m-prewarm -n ns" in message


def test_no_job_is_made_for_a_claim_that_is_about_to_go() -> None:
    world = world_of()
    world.run_composite()
    claim = world.owned[names.CLAIMS]["ns/m-cache"]
    claim["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    world.settle()
    assert not world.owned[names.JOBS]
    world.gateway_becomes(available=True)
    world.settle()
    assert "once claim m-cache is there" in world.condition("Ready")["message"]


def test_at_zero_with_staged_weights_a_request_will_be_served() -> None:
    assert asleep().ready() == ("ScaledToZero", "True", "ScaledToZero")


def test_a_quiet_world_is_silent_at_every_stage() -> None:
    for world in (staging(), staged(), asleep(), awake()):
        assert world.settle() == []
