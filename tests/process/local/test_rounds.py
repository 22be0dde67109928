"""openai-python through ``noctaya up``: from zero, and back to it."""

import datetime
import threading
import time

import pytest

from engine.echo import PREFACE
from tests.process.local.conftest import Manifests, Start, Up

# A gateway that is younger than this keeps a backend that is up, lest it zero one that serves
# streams through the gateway before it.
YOUTH_SECONDS = 60
# The example's engine leaves within: its cooldown, KEDA's polling period, ten quiet seconds of
# drain. On a busy machine twice that.
SLEEP_SECONDS = 2 * (2 + 10 + 10)


def ask(up: Up, *, stream: bool) -> str:
    if not stream:
        answer = up.client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "Hello"}]
        )
        return answer.choices[0].message.content or ""
    chunks = up.client.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_three_rounds_from_zero_and_the_engine_is_gone_after_each(
    up: Start, manifests: Manifests
) -> None:
    manifests.scaling["scaleDownStabilization"] = "2s"
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    for number in range(3):
        assert running.engines() == []
        told = len(running.lines())
        assert ask(running, stream=number % 2 == 0) == f"{PREFACE} Hello"
        assert ask(running, stream=number % 2 == 1) == f"{PREFACE} Hello"
        assert len(running.engines()) == 1
        running.wait_for(lambda line: line["phase"] == "Ready", after=told, seconds=10)
        running.wait_until_it_sleeps(after=told, seconds=YOUTH_SECONDS + SLEEP_SECONDS)
        deadline = time.monotonic() + SLEEP_SECONDS
        while running.engines():
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_replicas_follow_the_demand_up_to_max(up: Start, manifests: Manifests) -> None:
    manifests.scaling.update(max=2, target=1)
    manifests.command("noctaya-echo", "--tokens-per-second", "5")
    running = up(manifests.write())
    running.wait_until_it_sleeps()

    def long() -> None:
        body = {"ignore_eos": True, "max_tokens": 200}
        running.client.completions.create(model="echo", prompt="Hello", extra_body=body)

    threads = [threading.Thread(target=long) for _ in range(4)]
    for thread in threads:
        thread.start()
    two = running.wait_for(lambda line: line["replicas"] == 2, seconds=60)
    assert two["running"] == 4
    assert len(running.engines()) == 2
    for thread in threads:
        thread.join()


def test_min_keeps_replicas_without_a_request(up: Start, manifests: Manifests) -> None:
    manifests.scaling["min"] = 1
    running = up(manifests.write())
    ready = running.wait_for(lambda line: line["replicas"] == 1, seconds=30)
    assert ready["waiting"] == ready["running"] == 0


@pytest.mark.parametrize("strategy", ["HostPath", "SharedPVC"])
def test_every_cache_strategy_is_a_folder_of_this_machine(
    up: Start, manifests: Manifests, strategy: str
) -> None:
    manifests.service["spec"]["cache"] = {"strategy": strategy}
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    assert ask(running, stream=False) == f"{PREFACE} Hello"


def test_a_request_longer_than_the_cooldown_is_finished(up: Start, manifests: Manifests) -> None:
    manifests.scaling["scaleDownStabilization"] = "1s"
    manifests.command("noctaya-echo", "--tokens-per-second", "2")
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    body = {"ignore_eos": True, "max_tokens": 30}
    answer = running.client.completions.create(model="echo", prompt="Hello", extra_body=body)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 30


@pytest.mark.parametrize("mode", ["text", "json"])
def test_what_it_reports_of_a_cold_request(up: Start, manifests: Manifests, mode: str) -> None:
    # Slow enough to be seen waiting and running on a busy machine: it is looked at now and then.
    manifests.command("noctaya-echo", "--load-seconds", "2", "--tokens-per-second", "5")
    began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    running = up(manifests.write(), flags=("-o", mode))
    running.wait_for_text("ScaledToZero")
    ask(running, stream=True)
    text = running.wait_for_text("Available")
    assert "ModelLoading" in text
    if mode == "text":
        assert f"curl -N {running.url}/chat/completions" in text
        assert "1 waiting, 0 running" in text
        assert "0 waiting, 1 running" in text
        return
    line = running.wait_for(
        lambda line: line["replicas"] == 1 and line["waiting"] == line["running"] == 0, seconds=30
    )
    message = line.pop("message")
    assert message
    assert began <= datetime.datetime.fromisoformat(line.pop("time"))
    assert line == {
        "service": "echo",
        "namespace": "default",
        "phase": "Ready",
        "reason": "Available",
        "replicas": 1,
        "waiting": 0,
        "running": 0,
        "endpoint": running.url,
    }
