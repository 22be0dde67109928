"""Edits while a model serves: weights are changed when the new ones are there (rules 2 and 3)."""

from __future__ import annotations

from typing import Any

import pytest

from hooks.llmservice import names
from tests.pure.hooks.staging.moments import (
    DIGEST,
    asleep,
    awake,
    copied,
    engine,
    env,
    fetcher,
    gateway_args,
    is_paused,
    model_path,
    place,
    replicas,
    staged,
    staging,
    template,
    world_of,
)
from tests.pure.hooks.world import serving


def test_another_source_is_refused_until_the_job_is_deleted() -> None:
    world = awake()
    before = copied(world)
    world.edit(model={"source": {"uri": "hf://org/name@v2"}})
    assert set(world.settle()) == {"status"}
    assert copied(world) == before
    assert world.ready() == ("Ready", "False", "PrewarmSpecChanged")
    assert "kubectl delete job m-prewarm -n ns" in world.condition("Ready")["message"]


def test_an_alias_of_the_source_is_the_same_source() -> None:
    world = awake()
    before = copied(world)
    world.edit(model={"source": {"uri": "huggingface://org/name@v1"}})
    assert world.settle() == ["status"]
    assert copied(world) == before
    assert world.ready()[2] == "Available"


def test_an_engine_rolls_onto_new_weights_when_they_are_there_and_not_before() -> None:
    world = awake(model={"source": {"uri": f"oci://r.example/m@{DIGEST}"}})
    gateway = world.deployment("gateway")["spec"]
    before = template(world)
    other = f"oci://r.example/m@sha256:{'1b' * 32}"
    world.edit(model={"source": {"uri": other}})
    world.job_is_deleted()
    world.settle()
    assert fetcher(world)["args"][1] == other
    assert template(world) == before
    assert world.deployment("gateway")["spec"] == gateway
    assert replicas(world) == 1
    world.job_ends(complete=True)
    world.settle()
    assert model_path(world) == str(place(other))
    assert replicas(world) == 1


def test_another_revision_of_the_same_repository_is_rolled_out_too() -> None:
    world = awake()
    before = template(world)
    world.edit(model={"source": {"uri": "hf://org/name@v2"}})
    world.job_is_deleted()
    world.settle()
    assert template(world) == before
    world.job_ends(complete=True)
    world.settle()
    assert template(world) != before


def test_staging_that_is_asked_for_later_leaves_the_engine_until_it_is_complete() -> None:
    world = serving(world_of(model={"source": {"uri": "hf://org/name"}}, cache={}))
    before = template(world)
    world.edit(cache={"prewarm": True})
    world.settle()
    assert template(world) == before
    assert world.ready() == ("Ready", "True", "Available")
    world.scale(0)
    world.settle()
    assert not is_paused(world)
    world.job_ends(complete=True)
    world.settle()
    assert env(engine(world))["HF_HUB_OFFLINE"] == "1"


def test_what_is_asked_of_the_gateway_alone_does_not_wait_for_staging() -> None:
    world = awake()
    world.job_is_deleted()
    world.edit(endpoint={"maxQueue": 7})
    world.settle()
    assert "--max-queue=7" in gateway_args(world)


def test_while_the_next_engine_waits_for_its_weights_the_gateway_knows_the_present_one() -> None:
    """Its names would turn away the requests that the present one can serve."""
    world = awake()
    spec = world.deployment("gateway")["spec"]
    world.job_is_deleted()
    world.edit(runtime={"name": "vllm", "argsOverride": ["--served-model-name", "next"]})
    world.settle()
    assert world.deployment("gateway")["spec"] == spec
    world.job_ends(complete=True)
    world.settle()
    assert "--served-model=next" in gateway_args(world)


def test_while_the_next_engine_waits_its_service_leads_to_the_present_ones_port() -> None:
    world = awake()
    spec = world.owned[names.SERVICES]["ns/m-backend"]["spec"]
    world.job_is_deleted()
    world.runtimes[0]["spec"]["container"]["port"]["containerPort"] = 9000
    world.settle()
    assert world.owned[names.SERVICES]["ns/m-backend"]["spec"] == spec
    world.job_ends(complete=True)
    world.settle()
    (port,) = world.owned[names.SERVICES]["ns/m-backend"]["spec"]["ports"]
    assert port["port"] == 9000


def test_deleting_the_job_while_serving_stages_again_and_stops_nothing() -> None:
    world = awake()
    before = copied(world)
    world.job_is_deleted()
    assert world.settle() == ["Create Job ns/m-prewarm"]
    after = copied(world)
    assert after.pop(names.JOBS)
    before.pop(names.JOBS)
    assert after == before
    assert world.ready() == ("Ready", "True", "Available")
    world.scale(0)
    world.settle()
    assert not is_paused(world)
    assert world.ready() == ("Loading", "False", "Prewarming")
    world.scale(1, ready=1)
    world.settle()
    assert replicas(world) == 1


def test_staging_that_is_no_longer_asked_for_deletes_nothing_and_holds_nothing_up() -> None:
    world = staging(model={"source": {"uri": "hf://org/name"}})
    world.edit(cache={"strategy": "NodeLocalPVC"})
    world.settle()
    assert world.owned[names.JOBS]
    assert world.owned[names.CLAIMS]
    assert names.STAGED_ON not in world.deployment("backend")["metadata"]["annotations"]
    world.scale(1, ready=1)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")


def test_staging_that_is_asked_for_again_finds_its_job() -> None:
    world = awake(model={"source": {"uri": "hf://org/name"}})
    staged = world.parent["spec"]["cache"]
    world.edit(cache={"strategy": "NodeLocalPVC"})
    world.settle()
    world.edit(cache=staged)
    assert not [write for write in world.settle() if "Job" in write]


@pytest.mark.parametrize("moment", [staging, staged, asleep, awake], ids=lambda m: m.__name__)
def test_a_mistake_deletes_nothing_at_any_stage(moment: Any) -> None:
    world = moment()
    before = copied(world)
    for mistake in ({"typo": 1}, {"runtime": {"name": "missing"}}):
        world.edit(**mistake)
        assert set(world.settle()) <= {"status", "annotations"}
        after = copied(world)
        assert after[names.JOBS] == before[names.JOBS]
        assert after[names.CLAIMS] == before[names.CLAIMS]
        assert replicas(world) == before[names.DEPLOYMENTS]["ns/m-backend"]["spec"]["replicas"]


def test_another_claim_takes_the_job_with_it_whose_pod_would_keep_the_old_one() -> None:
    world = asleep()
    world.edit(cache={"strategy": "NodeLocalPVC", "size": "1Ti", "prewarm": True})
    world.settle()
    assert world.ready()[2] == "CacheSpecChanged"
    told = world.condition("Ready")["message"]
    assert "kubectl delete job/m-prewarm pvc/m-cache -n ns" in told
    world.job_is_deleted()
    del world.owned[names.CLAIMS]["ns/m-cache"]
    world.settle()
    claim = world.owned[names.CLAIMS]["ns/m-cache"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Ti"
    assert world.job()
