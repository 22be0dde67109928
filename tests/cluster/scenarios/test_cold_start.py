"""From zero and back: apply, the first request, idle, and the same again."""

import openai
import pytest

from tests.cluster import cluster as running
from tests.cluster import layout
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint


@pytest.fixture(scope="module")
def plain(start: Start) -> Endpoint:
    return start("plain")


@pytest.fixture(scope="module")
def slow(start: Start) -> Endpoint:
    return start("slow", "echo-slow")


@pytest.fixture(scope="module")
def refusing(start: Start) -> Endpoint:
    return start("refusing", "echo-slow", mode="reject")


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(plain: Endpoint, slow: Endpoint, refusing: Endpoint) -> None:
    """Their starts overlap, which saves the suite a minute."""


def test_an_applied_service_is_ready_at_zero_and_never_ran_a_pod(plain: Endpoint) -> None:
    plain.wait_asleep()
    plain.cluster.kubectl(
        "wait",
        "--for=condition=Ready",
        "--timeout=30s",
        f"llmservice/{plain.name}",
        f"-n={plain.namespace}",
    )
    status = plain.service()["status"]
    assert (status["phase"], status["replicas"]) == ("ScaledToZero", 0)
    assert status["endpointURL"] == f"http://plain.{plain.namespace}.svc/v1"
    assert plain.condition("AutoscalingReady")["status"] == "True"
    assert plain.condition("Degraded")["status"] == "False"
    assert plain.replica_numbers() == [0]
    assert plain.started_pods() == 0


def test_a_cold_streaming_request_is_kept_alive_and_answered(slow: Endpoint) -> None:
    slow.wait_armed()
    answer = slow.ask("Are you there?")
    assert answer.status == 200
    assert "text/event-stream" in answer.headers["content-type"]
    assert answer.finished
    assert "Are you there?" in answer.text
    # The engine loads for 4 s, with a heartbeat every second.
    assert len(answer.heartbeats) >= 3
    first_event = next(at for at, line in answer.lines if line.startswith("data:"))
    assert answer.heartbeats[0] < 3 < first_event


def test_an_unused_service_goes_back_to_zero(slow: Endpoint) -> None:
    slow.wait_ready()
    slow.wait_asleep()
    assert slow.replica_numbers() == [0, 1, 0]
    assert slow.service()["status"]["phase"] == "ScaledToZero"


def test_a_rejected_client_that_retries_is_answered(refusing: Endpoint) -> None:
    """The client of OpenAI's own library, which goes by Retry-After."""
    refusing.wait_armed()
    first = refusing.ask()
    assert first.status == 503
    assert 1 <= int(first.headers["retry-after"]) <= 60
    url = f"{refusing.cluster.url(refusing.name, refusing.namespace)}/v1"
    with (
        refusing.cluster.inside(),
        openai.OpenAI(base_url=url, api_key="unused", max_retries=20) as client,
    ):
        completion = client.chat.completions.create(
            model="noctaya/echo", messages=[{"role": "user", "content": "And now?"}]
        )
    assert "And now?" in (completion.choices[0].message.content or "")


def test_every_cycle_is_like_the_first(plain: Endpoint) -> None:
    plain.wait_armed()
    cycles = []
    for _ in range(3):
        since = plain.cluster.audit.mark()
        answer = plain.ask("Again")
        plain.wait_ready()
        ready = plain.service()["status"]["phase"]
        plain.wait_asleep()
        template = plain.backend()["spec"]["template"]
        asleep = plain.service()["status"]["phase"]
        cycles.append(
            (answer.status, answer.text, ready, asleep, plain.replica_numbers(since), template)
        )
    assert cycles[0][:5] == (200, cycles[0][1], "Ready", "ScaledToZero", [1, 0])
    assert "Again" in cycles[0][1]
    assert cycles[1] == cycles[0]
    assert cycles[2] == cycles[0]


def test_the_example_that_ships_answers_on_any_cluster(installed: running.Cluster) -> None:
    example = layout.REPOSITORY / "manifests" / "examples" / "echo"
    installed.apply(example)
    try:
        echo = Endpoint(installed, "default", "echo", model="echo")
        echo.wait_armed()
        assert echo.condition("ColdStartBudget")["status"] == "True"
        answer = echo.ask("Good evening")
        assert answer.finished
        assert "Good evening" in answer.text
    finally:
        installed.kubectl("delete", f"--filename={example}", "--wait=false")
