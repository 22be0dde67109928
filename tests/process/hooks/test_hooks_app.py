"""The hooks over real HTTP."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import socket
import statistics
import time

import pytest
import requests
import yaml

from hooks import questions
from tests.process.hooks.serving import Server, free_port, start
from tests.pure.hooks import golden

pytestmark = pytest.mark.process

SECRET = "hunter2-of-the-body"


def hook_of(case: str) -> str:
    return questions.path_of(golden.request(case))


@pytest.mark.parametrize("case", golden.cases())
def test_a_recorded_request_gets_its_answer(server: Server, case: str) -> None:
    answer = requests.post(server.url + hook_of(case), json=golden.request(case), timeout=30)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    expected = yaml.safe_load((golden.FIXTURES / case / "expected.yaml").read_text())
    told = answer.json()
    for part in ("children", "attachments", "annotations"):
        assert told.get(part) == expected.get(part)
    assert set(told) == set(expected)


def test_health_is_answered(server: Server) -> None:
    for path in ("/healthz", "/readyz"):
        assert requests.get(server.url + path, timeout=30).status_code == 200


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"parent": {"metadata": {}}}'])
def test_what_is_no_request_is_refused_with_a_reason(server: Server, body: str) -> None:
    answer = requests.post(f"{server.url}/llmservice/sync", data=body, timeout=30)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/llmservices/sync", 404), ("POST", "/", 404), ("GET", "/llmservice/sync", 405)],
)
def test_a_misspelt_hook_is_told_which_there_are(
    server: Server, method: str, path: str, status: int
) -> None:
    answer = requests.request(method, server.url + path, json={}, timeout=30)
    assert answer.status_code == status
    assert "expected a POST to one of /llmservice/sync, " in answer.json()["error"]
    assert ("POST" in answer.headers.get("Allow", "")) == (status == 405)


@pytest.mark.parametrize("depth", [300, 900, 5000])
def test_nesting_without_end_is_refused_with_a_reason(server: Server, depth: int) -> None:
    spec = "[" * depth + "]" * depth
    parent = f'{{"metadata": {{"name": "m", "namespace": "ns"}}, "spec": {spec}}}'
    body = f'{{"parent": {parent}, "children": {{}}, "related": {{}}}}'
    answer = requests.post(f"{server.url}/llmservice/sync", data=body, timeout=30)
    assert answer.status_code in (200, 400)
    assert depth < 900 or answer.json() == {"error": "the body is nested too deeply"}


HEAD = b"POST /llmservice/sync HTTP/1.1\r\nHost: hooks\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 10\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_a_body_that_breaks_off_is_refused(server: Server, rest: bytes) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(HEAD + rest)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b'{"error":' in answer
    assert "Traceback" not in server.log.read_text()


def test_bodies_are_never_logged(server: Server) -> None:
    whole = golden.request("serving")
    whole["parent"]["spec"]["runtime"]["argsOverride"] = [SECRET, 5]
    for body in (json.dumps(whole), f'{{"{SECRET}"', json.dumps({"parent": SECRET})):
        requests.post(f"{server.url}/llmservice/sync", data=body, timeout=30)
    assert SECRET not in server.log.read_text()


def test_many_at_once_are_all_answered(server: Server) -> None:
    body = json.dumps(golden.request("serving-in-full"))
    session = requests.Session()

    def ask(_: int) -> tuple[int, float]:
        started = time.monotonic()
        status = session.post(f"{server.url}/llmservice/sync", data=body, timeout=30).status_code
        return status, time.monotonic() - started

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(200)))
    session.close()
    assert {status for status, _ in answers} == {200}
    # Metacontroller gives a hook ten seconds.
    assert statistics.median(seconds for _, seconds in answers) < 1


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "NOCTAYA_GATEWAY_IMAGE is not set"),
        (
            {"NOCTAYA_GATEWAY_IMAGE": "g", "NOCTAYA_GATEWAY_REPLICAS": "0"},
            "GATEWAY_REPLICAS is '0'",
        ),
        (
            {"NOCTAYA_GATEWAY_IMAGE": "g", "NOCTAYA_IMAGE_PULL_POLICY": "Sometimes"},
            "IMAGE_PULL_POLICY is 'Sometimes'",
        ),
    ],
)
def test_an_unusable_environment_is_one_line_and_an_end(
    tmp_path: pathlib.Path, environment: dict[str, str], sentence: str
) -> None:
    log = tmp_path / "log"
    process = start(free_port(), log, environment)
    try:
        assert process.wait(timeout=60) != 0
    finally:
        process.kill()
        process.wait()
    text = log.read_text()
    assert sentence in text
    assert "Traceback" not in text
