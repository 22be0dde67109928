"""From the start of the process to its end."""

import json
import subprocess
import threading
import time

import pytest
import requests

from tests.process.engine.conftest import COMMAND, Engine, Start

LONG = {
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 40,
    "ignore_eos": True,
    "stream": True,
}


def events(engine: Engine) -> list[str]:
    """Those of a streamed answer, up to where it ended or broke off."""
    received = []
    answer = engine.post("/v1/chat/completions", LONG, stream=True)
    answer.raise_for_status()
    try:
        received += [line for line in answer.iter_lines(chunk_size=1, decode_unicode=True) if line]
    except requests.exceptions.ChunkedEncodingError:
        received.append("broken off")
    return received


def in_background(engine: Engine) -> tuple[threading.Thread, list[str]]:
    received: list[str] = []
    thread = threading.Thread(target=lambda: received.extend(events(engine)))
    thread.start()
    deadline = time.monotonic() + 10
    metric = 'vllm:num_requests_running{engine="0",model_name="noctaya-echo"} 1.0'
    while metric not in requests.get(f"{engine.url}/metrics", timeout=10).text:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return thread, received


def test_connections_are_refused_until_the_model_is_loaded(start: Start) -> None:
    began = time.monotonic()
    engine = start("--load-seconds", "1", wait=False)
    engine.wait_until_it_listens()
    assert time.monotonic() - began >= 1
    assert requests.get(f"{engine.url}/health", timeout=10).status_code == 200


def test_it_notes_when_it_listened_and_when_it_was_first_healthy(start: Start) -> None:
    before = time.time()
    engine = start()
    between = time.time()
    for _ in range(2):
        requests.get(f"{engine.url}/health", timeout=10)
    listening, healthy = engine.notes()
    assert (listening["event"], healthy["event"]) == ("listening", "healthy")
    assert before < listening["started"] < listening["time"] <= between <= healthy["time"]
    text = requests.get(f"{engine.url}/metrics", timeout=10).text
    samples = dict(line.split(" ") for line in text.splitlines() if line.startswith("noctaya"))
    for note, gauge in ((listening, "listening"), (healthy, "first_healthy")):
        at = float(samples[f"noctaya_echo_{gauge}_timestamp_seconds"])
        assert at == pytest.approx(note["time"], abs=0.01)


def test_a_signal_ends_an_idle_engine_with_code_0(start: Start) -> None:
    assert start().stop() == 0


def test_a_signal_while_loading_ends_it_with_code_0(start: Start) -> None:
    engine = start("--load-seconds", "60", wait=False)
    time.sleep(2)
    assert engine.stop() == 0


def test_a_signal_aborts_running_requests_by_default(start: Start) -> None:
    engine = start("--tokens-per-second", "10")
    thread, received = in_background(engine)
    began = time.monotonic()
    assert engine.stop() == 0
    thread.join()
    assert time.monotonic() - began < 3
    *_, finish, done = received
    assert json.loads(finish.removeprefix("data: "))["choices"][0]["finish_reason"] == "abort"
    assert done == "data: [DONE]"


def test_a_signal_lets_running_requests_finish_and_refuses_new_ones(start: Start) -> None:
    engine = start("--tokens-per-second", "20", "--shutdown-timeout-seconds", "20")
    thread, received = in_background(engine)
    engine.process.terminate()
    deadline = time.monotonic() + 2
    while (refused := engine.post("/v1/chat/completions", LONG)).status_code == 200:
        assert time.monotonic() < deadline
    assert refused.status_code == 500
    assert requests.get(f"{engine.url}/health", timeout=10).status_code == 200
    assert engine.process.wait(timeout=30) == 0
    thread.join()
    assert (
        json.loads(received[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    )


def test_a_crash_on_demand_breaks_streams_off(start: Start) -> None:
    engine = start("--tokens-per-second", "10", "--crash-exit-code", "7")
    thread, received = in_background(engine)
    with pytest.raises(requests.exceptions.ConnectionError):
        engine.post("/debug/crash", {})
    assert engine.process.wait(timeout=10) == 7
    thread.join()
    assert received[-1] == "broken off"


def test_it_crashes_when_it_was_told_to(start: Start) -> None:
    at_once = start("--crash-on-start", "--crash-exit-code", "3", wait=False)
    assert at_once.process.wait(timeout=20) == 3
    loading = start("--load-seconds", "60", "--crash-after-seconds", "0.2", wait=False)
    assert loading.process.wait(timeout=20) == 1


def test_a_port_in_use_is_one_line_and_code_1(engine: Engine) -> None:
    command = [str(COMMAND), "--host", "127.0.0.1"]
    second = subprocess.run(
        [*command, "--port", str(engine.port)], capture_output=True, text=True, timeout=30
    )
    assert second.returncode == 1
    assert second.stderr == (
        f"noctaya-echo: cannot listen on 127.0.0.1:{engine.port}: Address already in use\n"
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("--load-seconds", "-1"),
        ("--tokens-per-second", "nan"),
        ("--max-num-seqs", "0"),
        ("--port", "0"),
        ("--crash-exit-code", "256"),
        ("--unknown",),
    ],
)
def test_a_wrong_flag_is_a_usage_error(flags: tuple[str, ...]) -> None:
    command = [str(COMMAND), *flags]
    wrong = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert wrong.returncode == 2
    assert flags[0].lstrip("-") in wrong.stderr
    assert "Traceback" not in wrong.stderr
