"""From one replica to several and back, by KEDA's metrics and Kubernetes' own autoscaler."""

import threading
import time

import pytest

from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS, Endpoint, Object, is_ready

CLIENTS = 12
REPLICAS = 3
TARGET = 3

# Of a new replica, from its being Ready; a share that is one short may be between two requests.
SHARE_SECONDS = 5.0
SHARE = CLIENTS // REPLICAS - 1

STREAM_SECONDS = 60
TOKENS_PER_SECOND = 10

# Far beyond the streams: a drain that waited for it would be seen to.
DRAIN_SECONDS = 300


@pytest.fixture(scope="module")
def busy(start: Start) -> Endpoint:
    """Keeps its replicas long enough for one test to begin where the other ended."""
    return start(
        "busy",
        "echo-steady",
        replicas=(0, REPLICAS),
        target=TARGET,
        idle_seconds=15,
        drain_seconds=DRAIN_SECONDS,
    )


def test_load_adds_replicas_that_have_their_share_seconds_after_they_are_ready(
    busy: Endpoint,
) -> None:
    busy.wait_armed()
    stop = threading.Event()
    clients = [busy.asking_on(stop) for _ in range(CLIENTS)]
    try:
        late: dict[str, float] = {}
        ready: dict[str, float] = {}

        def every_replica_has_its_share() -> bool:
            for pod in busy.pods():
                name = pod["metadata"]["name"]
                if name in late or not is_ready(pod):
                    continue
                since = ready.setdefault(name, time.monotonic())
                if busy.running(pod) >= SHARE:
                    late[name] = time.monotonic() - since
            return len(late) == REPLICAS

        busy.cluster.wait("three replicas share", every_replica_has_its_share, PATIENCE_SECONDS)
        assert max(late.values()) < SHARE_SECONDS, late
    finally:
        stop.set()
    answers = [answer for client in clients for answer in client.result(PATIENCE_SECONDS)]
    assert all(answer.status == 200 and answer.finished for answer in answers)
    numbers = busy.replica_numbers()
    assert numbers[:2] == [0, 1]
    assert numbers == sorted(numbers)


def test_replicas_that_go_cut_none_of_their_streams(busy: Endpoint) -> None:
    """One long stream on each of three replicas is demand for one replica only."""
    busy.wait_ready(REPLICAS)
    replicas = busy.pods()
    since = busy.cluster.audit.mark()
    tokens = STREAM_SECONDS * TOKENS_PER_SECOND
    begin = time.monotonic()
    streams = [
        busy.asking("A long story", max_tokens=tokens, min_tokens=tokens) for _ in range(REPLICAS)
    ]
    spread = "each replica has one stream"
    busy.cluster.wait(spread, lambda: [busy.running(p) for p in replicas] == [1] * REPLICAS, 10)
    busy.cluster.wait("one replica is asked for", lambda: busy.replicas() == 1, 40)
    going = busy.cluster.wait("two replicas go", lambda: _going(busy, 2))
    assert time.monotonic() - begin < STREAM_SECONDS - 10, "too late to tell anything"
    assert [busy.running(pod) for pod in going] == [1, 1]
    for stream in streams:
        answer = stream.result(PATIENCE_SECONDS)
        assert (answer.status, answer.finished) == (200, True), answer
        assert len(answer.events) > tokens
    assert 0 not in busy.replica_numbers(since)
    # The drain ends with the work, long before its limit.
    busy.cluster.wait(
        "the drained replicas are gone", lambda: not _going(busy, 1), DRAIN_SECONDS / 2
    )


def _going(service: Endpoint, count: int) -> list[Object]:
    """The backend's Pods that end, where there are at least so many."""
    going = [pod for pod in service.pods() if "deletionTimestamp" in pod["metadata"]]
    return going if len(going) >= count else []
