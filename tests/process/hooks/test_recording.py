"""Recording as it is served: a folder named by the environment."""

from __future__ import annotations

import json
import pathlib

import pytest
import requests

from hooks.recording import VARIABLE
from local import recordings
from tests.process.hooks.serving import free_port, start, wait_until_ready
from tests.pure.hooks import golden
from tests.pure.hooks.world import SETTINGS

pytestmark = pytest.mark.process

ENVIRONMENT = {"NOCTAYA_GATEWAY_IMAGE": SETTINGS.gateway_image}
SECRET = "hunter2-of-the-environment"


def test_what_was_asked_over_http_replays_to_what_was_answered(tmp_path: pathlib.Path) -> None:
    folder, log, port = tmp_path / "recorded", tmp_path / "log", free_port()
    process = start(port, log, ENVIRONMENT | {VARIABLE: str(folder)})
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(url, process, log)
        body = golden.request("created-in-full")
        parent = {"parent": body["parent"]}
        answers = [
            requests.post(url + path, json=sent, timeout=30).json()
            for path, sent in [
                ("/llmservice/sync", body),
                ("/llmservice/customize", parent),
                ("/autoscaling/customize", parent),
                ("/autoscaling/sync", golden.request("keda-serving")),
            ]
        ]
        for refused in (b"{", json.dumps([SECRET]).encode()):
            assert requests.post(f"{url}/llmservice/sync", data=refused, timeout=30).status_code
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
    replayed = [recordings.read(file) for file in sorted(folder.iterdir())]
    assert [one.circumstances.settings.gateway_image for one in replayed] == [
        SETTINGS.gateway_image
    ] * 4
    # Literals of the environment are the only difference, and with them the template's hash.
    assert [recordings.answer(one) for one in replayed[1:]] == answers[1:]
    assert recordings.answer(replayed[0])["status"] == answers[0]["status"]
    assert "Traceback" not in log.read_text()
    assert SECRET not in log.read_text()


def test_a_folder_that_cannot_be_written_is_one_line_and_an_end(tmp_path: pathlib.Path) -> None:
    log, occupied = tmp_path / "log", tmp_path / "file"
    occupied.write_text("")
    process = start(free_port(), log, ENVIRONMENT | {VARIABLE: str(occupied)})
    try:
        assert process.wait(timeout=60) != 0
    finally:
        process.kill()
        process.wait()
    assert f"noctaya-hooks: {VARIABLE}: " in log.read_text()
    assert "Traceback" not in log.read_text()
