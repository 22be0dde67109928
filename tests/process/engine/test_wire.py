"""What a proxy depends on: when bytes leave, how they are cut, how errors look."""

import json
import socket
import threading
import time
from typing import Any

import pytest
import requests

from tests.process.engine.conftest import Engine, Start

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]


def raw_stream(engine: Engine, body: dict[str, Any]) -> list[tuple[float, bytes]]:
    """(seconds, chunk) of the answer to a streamed request; the headers are the first."""
    text = json.dumps({**body, "stream": True})
    request = (
        f"POST {CHAT} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}"
    )
    began = time.monotonic()
    received = []
    with socket.create_connection(("127.0.0.1", engine.port)) as sock:
        sock.settimeout(30)
        sock.sendall(request.encode())
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            part = sock.recv(65536)
            assert part, data
            data += part
            received.append((time.monotonic() - began, part))
    return received


def test_headers_leave_at_once_and_the_role_with_the_first_token(start: Start) -> None:
    engine = start("--time-to-first-token-seconds", "0.5")
    received = raw_stream(engine, {"messages": HELLO})
    at, headers = received[0]
    assert at < 0.4
    assert headers.startswith(b"HTTP/1.1 200")
    assert b"text/event-stream; charset=utf-8" in headers
    assert headers.endswith(b"\r\n\r\n")
    at, first = received[1]
    assert at >= 0.5
    assert b'"role":"assistant"' in first


def test_every_event_is_a_chunk_of_its_own(engine: Engine) -> None:
    body = b"".join(part for _, part in raw_stream(engine, {"messages": HELLO}))
    chunked = body.partition(b"\r\n\r\n")[2]
    chunks = []
    while True:
        size, _, chunked = chunked.partition(b"\r\n")
        if size == b"0":
            break
        chunks.append(chunked[: int(size, 16)])
        chunked = chunked[int(size, 16) + 2 :]
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in chunks)
    assert all(chunk.count(b"\n\n") == 1 for chunk in chunks)
    assert chunks[-1] == b"data: [DONE]\n\n"


def test_tokens_come_at_the_pace_that_was_set(start: Start) -> None:
    engine = start("--tokens-per-second", "20")
    received = raw_stream(engine, {"messages": HELLO, "max_tokens": 11})
    # Ten pauses of 50 ms between eleven tokens.
    assert 0.45 < received[-1][0] < 3


def test_usage_is_only_where_it_was_asked_for(engine: Engine) -> None:
    events = b"".join(part for _, part in raw_stream(engine, {"messages": HELLO}))
    assert b'"usage"' not in events
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = {"messages": HELLO, "stream_options": options}
    events = b"".join(part for _, part in raw_stream(engine, asked))
    assert events.count(b'"usage"') == events.count(b"data: {")


def test_the_clients_request_id_is_part_of_the_answers(engine: Engine) -> None:
    headers = {"X-Request-Id": "abc"}
    answer = engine.post(COMPLETION, {"prompt": "Hello"}, headers=headers).json()
    assert answer["id"] == "cmpl-abc"


@pytest.mark.parametrize("model", [pytest.param(None, id="null"), pytest.param("", id="empty")])
def test_an_unnamed_model_is_the_served_one(engine: Engine, model: str | None) -> None:
    answer = engine.post(COMPLETION, {"model": model, "prompt": "Hello"})
    assert answer.json()["model"] == "echo"
    assert engine.post(COMPLETION, {"prompt": "Hello"}).json()["model"] == "echo"


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        pytest.param(CHAT, {}, 400, "Bad Request", "body.messages", id="no messages"),
        pytest.param(CHAT, {"messages": 3}, 400, "Bad Request", "body.messages", id="no list"),
        pytest.param(CHAT, {"model": "x"}, 400, "Bad Request", "body.messages", id="schema first"),
        pytest.param(CHAT, [], 400, "Bad Request", "body", id="array"),
        pytest.param(
            CHAT, {"messages": ["x"]}, 400, "Bad Request", "body.messages.0", id="message is text"
        ),
        pytest.param(CHAT, {"messages": []}, 400, "BadRequestError", "messages", id="no message"),
        pytest.param(
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "BadRequestError",
            None,
            id="image",
        ),
        pytest.param(
            CHAT,
            {"messages": HELLO, "max_tokens": 0},
            400,
            "BadRequestError",
            "max_tokens",
            id="max_tokens 0",
        ),
        pytest.param(
            CHAT,
            {"messages": HELLO, "max_tokens": 10**6, "stream": True},
            400,
            "BadRequestError",
            "max_tokens",
            id="max_tokens beyond the context, streamed",
        ),
        pytest.param(
            CHAT,
            {"messages": HELLO, "stream_options": {}},
            400,
            "Bad Request",
            "body.stream_options",
            id="stream_options without stream",
        ),
        pytest.param(
            CHAT, {"messages": HELLO, "n": 0}, 400, "BadRequestError", "n", id="no choice"
        ),
        pytest.param(
            CHAT, {"messages": HELLO, "n": 129}, 400, "BadRequestError", "n", id="many choices"
        ),
        pytest.param(
            COMPLETION,
            {"prompt": "x", "max_tokens": "5"},
            400,
            "Bad Request",
            "body.max_tokens",
            id="number as text",
        ),
        pytest.param(COMPLETION, {"prompt": [1, 2]}, 400, "BadRequestError", None, id="token ids"),
        pytest.param(
            COMPLETION, {"prompt": "x", "stop": ""}, 400, "BadRequestError", "stop", id="empty stop"
        ),
        pytest.param(
            COMPLETION, {"prompt": "x " * 40000}, 400, "BadRequestError", "max_tokens", id="long"
        ),
        pytest.param(
            COMPLETION,
            {"prompt": "x", "model": "ECHO"},
            404,
            "NotFoundError",
            "model",
            id="wrong case",
        ),
    ],
)
def test_a_wrong_request_is_refused_in_vllms_words(
    engine: Engine, path: str, body: Any, status: int, kind: str, param: str | None
) -> None:
    answer = engine.post(path, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (status, kind, param)
    assert error["code"] == status
    assert error["message"]


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        pytest.param(b"{", "application/json", id="not JSON"),
        pytest.param(b"", "application/json", id="empty"),
        pytest.param(b"\x1f\x8b\x08", "application/json", id="not text"),
        pytest.param(b'{"prompt": "x"}', "text/plain", id="wrong content type"),
    ],
)
def test_a_body_that_is_no_json_is_a_bad_request(
    engine: Engine, data: bytes, content_type: str
) -> None:
    headers = {"Content-Type": content_type}
    answer = requests.post(f"{engine.url}{COMPLETION}", data=data, headers=headers, timeout=30)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "Bad Request"


def test_unknown_paths_and_methods_are_refused_as_by_the_framework(engine: Engine) -> None:
    assert requests.get(f"{engine.url}/v1/nothing", timeout=30).json() == {"detail": "Not Found"}
    wrong = requests.get(f"{engine.url}{CHAT}", timeout=30)
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert requests.head(f"{engine.url}/health", timeout=30).status_code == 405


def test_gauges_tell_running_from_waiting(start: Start) -> None:
    engine = start("--tokens-per-second", "5", "--max-num-seqs", "1")
    body = {"messages": HELLO, "max_tokens": 5}
    clients = [threading.Thread(target=engine.post, args=(CHAT, body)) for _ in range(3)]
    for client in clients:
        client.start()
    deadline = time.monotonic() + 10
    while gauges(engine) != (1, 2):
        assert time.monotonic() < deadline, gauges(engine)
        time.sleep(0.02)
    for client in clients:
        client.join()
    assert gauges(engine) == (0, 0)


def test_a_client_that_leaves_ends_its_generation(start: Start) -> None:
    engine = start("--tokens-per-second", "10")
    body = {"messages": HELLO, "max_tokens": 1000, "ignore_eos": True, "stream": True}
    with engine.post(CHAT, body, stream=True):
        assert gauges(engine) == (1, 0)
    deadline = time.monotonic() + 5
    while gauges(engine) != (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gauges(engine: Engine) -> tuple[float, float]:
    """(running, waiting)"""
    samples = dict(
        line.rsplit(" ", 1)
        for line in requests.get(f"{engine.url}/metrics", timeout=30).text.splitlines()
        if not line.startswith("#")
    )
    labels = '{engine="0",model_name="noctaya-echo"}'
    running, waiting = (
        float(samples[f"vllm:num_requests_{state}{labels}"]) for state in ("running", "waiting")
    )
    return running, waiting
