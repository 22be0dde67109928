"""A replica that ends takes nothing new; what comes meanwhile starts the next one."""

import time

from tests.cluster.scenarios.conftest import Start

DRAIN_SECONDS = 20


def test_a_request_in_every_second_of_a_drain_is_answered(start: Start) -> None:
    service = start("draining", "echo-drains", drain_seconds=DRAIN_SECONDS)
    service.wait_armed()
    assert service.ask().finished
    service.wait_ready()

    def ending() -> set[str]:
        metadata = (pod["metadata"] for pod in service.pods())
        return {meta["uid"] for meta in metadata if "deletionTimestamp" in meta}

    drained = service.cluster.wait("the replica ends", ending, seconds=90)
    begin = time.monotonic()
    asked = []
    for second in range(DRAIN_SECONDS):
        time.sleep(max(0.0, begin + second - time.monotonic()))
        asked.append(service.asking(f"second {second}"))
    assert drained <= ending(), "the drain was over before its time"
    for second, request in enumerate(asked):
        answer = request.result(timeout=90)
        assert (answer.status, answer.finished) == (200, True), (second, answer)
        assert f"second {second}" in answer.text
