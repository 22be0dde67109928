"""Parts that go away for a while, and fields that somebody removes."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import noctaya
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

ANNOTATION = "serving.noctaya.io/autoscaling"
OUTAGE_SECONDS = 60


@pytest.fixture(scope="module")
def held(start: Start) -> Endpoint:
    return start("held", "echo-slow")


@pytest.fixture(scope="module")
def serving(start: Start) -> Endpoint:
    """Does not go to zero while a test is busy with it."""
    return start("serving", idle_seconds=300)


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(held: Endpoint, serving: Endpoint) -> None:
    """Their starts overlap."""


def test_a_held_request_outlives_its_gateway(held: Endpoint) -> None:
    held.wait_armed()
    since = held.cluster.audit.mark()
    request = held.asking("Hold the line")
    held.cluster.wait("the replica starts", held.pods)
    [gateway] = [pod["metadata"]["name"] for pod in held.pods("gateway")]
    held.cluster.kubectl("delete", "pod", gateway, f"-n={held.namespace}", "--wait=false")
    answer = request.result(timeout=90)
    assert (answer.status, answer.finished) == (200, True), answer
    assert "Hold the line" in answer.text
    assert held.replica_numbers(since)[:1] == [1]
    assert 0 not in held.replica_numbers(since), "the replica was taken away during its start"


def test_removing_the_parents_annotation_does_not_touch_a_serving_model(serving: Endpoint) -> None:
    serving.wait_armed()
    assert serving.ask().finished
    serving.wait_ready()
    before = serving.backend()["metadata"]["uid"]
    pods = {pod["metadata"]["uid"] for pod in serving.pods()}
    since = serving.cluster.audit.mark()

    serving.cluster.kubectl(
        "annotate", f"llmservice/{serving.name}", f"{ANNOTATION}-", f"-n={serving.namespace}"
    )

    def restored() -> bool:
        return ANNOTATION in serving.service()["metadata"].get("annotations", {})

    serving.cluster.wait("the annotation is back", restored)
    assert serving.ask("Still here?").finished
    assert serving.replica_numbers(since) in ([], [1])
    assert serving.backend()["metadata"]["uid"] == before
    assert {pod["metadata"]["uid"] for pod in serving.pods()} == pods
    assert not serving.deletions(since)


def test_a_gateway_that_is_away_for_a_minute_costs_no_scaled_object(serving: Endpoint) -> None:
    """Its namespace takes no further Pod, so a deleted gateway stays away; its model runs on."""
    serving.wait_ready()
    before = serving.scaled_object()["metadata"]["uid"]
    since = serving.cluster.audit.mark()
    quota = builders.pod_quota(serving.namespace, len(serving.pods()))
    serving.cluster.apply(quota)
    serving.cluster.wait("the quota is in force", lambda: _counted(serving))
    try:
        [gateway] = [pod["metadata"]["name"] for pod in serving.pods("gateway")]
        serving.cluster.kubectl("delete", "pod", gateway, f"-n={serving.namespace}", "--wait=false")
        serving.cluster.wait(
            "no gateway is available",
            lambda: not serving.gateway()["status"].get("availableReplicas"),
        )
        time.sleep(OUTAGE_SECONDS)
        assert not serving.gateway()["status"].get("availableReplicas")
        assert serving.condition("Ready")["status"] == "False"
    finally:
        serving.cluster.kubectl("delete", "resourcequota", "pods", f"-n={serving.namespace}")
    _nudge_replica_sets(serving)
    serving.wait_ready()
    assert serving.ask("Back again").finished
    assert serving.scaled_object()["metadata"]["uid"] == before
    assert serving.replica_numbers(since) in ([], [1])
    assert not serving.deletions(since)


def _counted(serving: Endpoint) -> bool:
    """Whether the quota is in force: until it has counted once, nothing is refused."""
    quota = serving.cluster.get("resourcequota", "pods", serving.namespace) or {}
    return "used" in quota.get("status", {})


def _nudge_replica_sets(serving: Endpoint) -> None:
    """Refused Pods are tried again after a growing pause; an event of their set ends it."""
    serving.cluster.kubectl(
        "annotate",
        "replicaset",
        "--all",
        "--overwrite",
        f"rig.noctaya.io/nudged={time.time()}",
        f"-n={serving.namespace}",
    )


@pytest.fixture
def without_autoscaling(installed: running.Cluster) -> Iterator[running.Cluster]:
    """The autoscaling controller is away; put back at the end if the test did not."""
    noctaya.remove_autoscaling(installed)
    yield installed
    noctaya.install_autoscaling(installed)


@pytest.mark.alone
def test_a_request_older_than_its_scaled_object_starts_one_replica_once(
    without_autoscaling: running.Cluster, start: Start
) -> None:
    """KEDA's first look must find the demand that was there before it: no 1 -> 0 -> 1."""
    cluster, service = without_autoscaling, start("early", "echo-slow")
    cluster.wait("the gateway answers", service.queue)
    request = service.asking("First come")
    cluster.wait("the request waits", lambda: service.queue()["waiting"] == 1)
    assert cluster.get("scaledobject", service.name, service.namespace) is None
    noctaya.install_autoscaling(cluster)
    answer = request.result(timeout=90)
    assert (answer.status, answer.finished) == (200, True), answer
    service.wait_ready()
    assert service.replica_numbers() == [0, 1]
