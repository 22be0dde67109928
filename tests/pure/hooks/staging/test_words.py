"""What the Job and its Pods say, in the words of a status."""

from __future__ import annotations

import pytest

from tests.pure.hooks.staging.moments import awake, replicas, staging
from tests.pure.hooks.world import Obj


def failed(code: int, line: str, at: str = "2026-06-01T12:00:00Z") -> Obj:
    ended = {"exitCode": code, "reason": "Error", "message": line, "finishedAt": at}
    return {"name": "fetcher", "state": {"terminated": ended}}


NOT_FOUND = (
    "not found: hf://org/name@v1 is not there: check the name, and HF_TOKEN if it is private"
)


def test_a_failed_job_is_told_with_the_fetchers_one_line() -> None:
    world = staging()
    world.add_prewarm_pod("m-prewarm-a", "Failed", containerStatuses=[failed(11, NOT_FOUND)])
    world.job_ends(complete=False, message="Pod ns/m-prewarm-a failed with exit code 11")
    world.settle()
    assert world.ready() == ("Degraded", "False", "PrewarmFailed")
    degraded = world.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "PrewarmFailed")
    assert NOT_FOUND in degraded["message"]
    assert "kubectl delete job m-prewarm -n ns" in degraded["message"]
    assert replicas(world) == 0
    assert world.settle() == []


def test_a_failed_job_whose_pods_are_gone_still_says_what_kubernetes_remembers() -> None:
    world = staging()
    world.job_ends(complete=False, message="Pod ns/m-prewarm-a failed with exit code 11")
    world.settle()
    assert "exit code 11" in world.condition("Degraded")["message"]


def test_deleting_a_failed_job_tries_again() -> None:
    world = staging()
    world.add_prewarm_pod("m-prewarm-a", "Failed", containerStatuses=[failed(11, NOT_FOUND)])
    world.job_ends(complete=False)
    world.settle()
    uid = world.job()["metadata"]["uid"]
    world.job_is_deleted()
    world.settle()
    world.job()["metadata"]["uid"] = f"{uid}-2"
    world.settle()
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert NOT_FOUND not in world.condition("Ready")["message"]


def test_an_attempt_that_is_made_again_is_told_while_it_lasts() -> None:
    world = staging()
    for name, at, line in (
        ("m-prewarm-b", "2026-06-01T12:00:00Z", "unavailable: first"),
        ("m-prewarm-a", "2026-06-01T12:01:00Z", "unavailable: second"),
    ):
        world.add_prewarm_pod(name, "Failed", containerStatuses=[failed(20, line, at)])
    running = {"name": "fetcher", "state": {"running": {}}}
    world.add_prewarm_pod("m-prewarm-c", "Running", containerStatuses=[running])
    world.settle()
    message = world.condition("Ready")["message"]
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert "unavailable: second" in message
    assert "first" not in message


def test_a_job_without_a_node_says_why_and_what_to_do() -> None:
    world = staging()
    words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"
    unscheduled = {"type": "PodScheduled", "status": "False", "message": words}
    world.add_prewarm_pod("m-prewarm-a", conditions=[unscheduled])
    world.settle()
    message = world.condition("Ready")["message"]
    assert words in message
    assert "claim m-cache with no StorageClass is Pending" in message
    assert "kubectl delete job m-prewarm -n ns" in message


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerConfigInvalid"),
    ],
)
def test_a_fetcher_that_cannot_start_is_a_failure(waiting: str, reason: str) -> None:
    world = staging()
    status = {"name": "fetcher", "image": "f", "state": {"waiting": {"reason": waiting}}}
    world.add_prewarm_pod("m-prewarm-a", containerStatuses=[status])
    world.settle()
    assert world.ready() == ("Degraded", "False", reason)


def test_a_serving_model_is_ready_whatever_the_job_says() -> None:
    world = awake()
    world.job_ends(complete=False)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
