"""Recorded requests: what is removed, what is kept, and that the answer stays the same."""

from __future__ import annotations

import copy
import datetime
import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from hooks import questions, recording, wire
from hooks.k8s import objects
from hooks.llmservice import names
from hooks.recording import Circumstances, Recorder
from tests.pure.hooks import golden
from tests.pure.hooks.scenes import VLLM
from tests.pure.hooks.test_mutations import CASES, SLOW_MACHINE, Path, mutate, mutations
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, serving

SECRET = "hunter2-of-the-environment"
STRANGERS = "kubectl.kubernetes.io/last-applied-configuration"


DEFAULT = Circumstances(path=questions.COMPOSITE_SYNC, at=NOON, settings=SETTINGS)


def circumstances(body: Obj) -> Circumstances:
    return Circumstances(path=questions.path_of(body), at=NOON, settings=SETTINGS)


def answer(body: Obj, told: Circumstances) -> Obj:
    response = questions.answer(told.path, body, settings=told.settings, now=told.at)
    return wire.dump(response)


def without_literals(value: Any) -> Any:
    """Without what a recording cannot tell: literals, and hashes that are made from them."""
    if isinstance(value, list):
        return [without_literals(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: [{**entry, "value": ""} for entry in item]
        if key == "env"
        else ""
        if key in (names.TEMPLATE_HASH, "templateHash")
        else without_literals(item)
        for key, item in value.items()
    }


def with_secrets(body: Obj) -> Obj:
    """The request where a runtime holds a secret, which is what its Pods were made with."""
    for runtime in body["related"].get(names.RUNTIMES, {}).values():
        env = runtime["spec"]["container"].setdefault("env", [])
        env.append({"name": "TOKEN", "value": SECRET})
        annotations = runtime["metadata"].setdefault("annotations", {})
        annotations[STRANGERS] = json.dumps({"env": [{"value": SECRET}]})
    return body


@pytest.mark.parametrize("case", golden.cases())
def test_a_recorded_request_replays_to_the_same_answer(case: str) -> None:
    body = golden.request(case)
    kept = recording.recorded(body, circumstances(body))
    again = json.loads(json.dumps(kept))
    told = recording.circumstances_of(again, DEFAULT)
    assert told == circumstances(body)
    expected = without_literals(answer(body, circumstances(body)))
    assert without_literals(answer(again, told)) == expected


def test_a_failed_replica_is_known_by_its_template_though_that_held_a_secret() -> None:
    """Pods are known by a hash of the template, literals included."""
    runtime = copy.deepcopy(VLLM)
    runtime["metadata"]["name"] = "echo"
    runtime["spec"]["container"]["env"].append({"name": "TOKEN", "value": SECRET})
    world = serving(World(runtime=runtime))
    world.scale(1)
    ended = {"exitCode": 1, "message": f"no access with {SECRET}"}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "engine", "state": waiting, "lastState": {"terminated": ended}}
    world.add_pod("m-backend-0", containerStatuses=[status])
    body = world.composite_request()
    kept = recording.recorded(body, circumstances(body))
    assert SECRET not in json.dumps(kept)
    before, after = (answer(asked, circumstances(body))["status"] for asked in (body, kept))
    assert after["phase"] == before["phase"] == "Degraded"
    assert after["lastFailure"]["reason"] == before["lastFailure"]["reason"] == "CrashLoopBackOff"
    assert after["lastFailure"]["message"] == before["lastFailure"]["message"].replace(
        SECRET, "(removed)"
    )


@pytest.mark.parametrize("case", golden.cases())
def test_no_literal_and_no_strangers_annotation_is_kept(case: str) -> None:
    body = with_secrets(golden.request(case))
    text = json.dumps(recording.recorded(body, circumstances(body)))
    assert SECRET not in text
    assert STRANGERS not in text
    assert "fieldsV1" not in text


def test_a_literal_that_a_status_quotes_is_removed_there_too() -> None:
    body = golden.request("created")
    (runtime,) = body["related"][names.RUNTIMES].values()
    runtime["spec"]["container"]["env"] = [{"name": "A", "value": f"{SECRET} {{{{.Typo}}}}"}]
    refused = answer(body, circumstances(body))
    assert SECRET in json.dumps(refused["status"])
    body["parent"]["status"] = refused["status"]
    kept = recording.recorded(body, circumstances(body))
    assert SECRET not in json.dumps(kept)
    (ready,) = (c for c in answer(kept, circumstances(body))["status"]["conditions"][:1])
    assert ready["reason"] == "RuntimeInvalid"
    assert "{{.Typo}}" in ready["message"]


@pytest.mark.parametrize(
    "literal",
    [
        "".join(f"{i}-hunter2-" for i in range(600)),
        "-----BEGIN KEY-----\nhunter2-of-line-1\nhunter2-of-line-2\n",
        'it\'s "hunter2-in-quotes"',
    ],
)
@pytest.mark.parametrize("typo", ["{{.Typo}}", "{{.Typo"])
def test_what_a_status_quotes_in_part_or_in_another_spelling_is_removed_too(
    literal: str, typo: str
) -> None:
    body = golden.request("created")
    (runtime,) = body["related"][names.RUNTIMES].values()
    runtime["spec"]["container"]["env"] = [{"name": "A", "value": f"{literal}{typo}"}]
    refused = answer(body, circumstances(body))
    assert "hunter2" in json.dumps(refused["status"])
    body["parent"]["status"] = refused["status"]
    kept = recording.recorded(body, circumstances(body))
    assert "hunter2" not in json.dumps(kept)
    assert "spec.container.env[0].value" in json.dumps(kept["parent"]["status"])


@pytest.mark.parametrize("path", ["/nope", ["/llmservice/sync"], {}, 5, None])
def test_a_path_that_is_none_of_the_hooks_is_told(path: Any) -> None:
    with pytest.raises(
        recording.RecordingError, match=r"recorded\.path: found .*, expected one of"
    ):
        recording.circumstances_of({"recorded": {"path": path}}, DEFAULT)


def test_the_runtime_itself_is_left_as_it_was() -> None:
    body = with_secrets(golden.request("created"))
    before = copy.deepcopy(body)
    recording.recorded(body, circumstances(body))
    assert body == before


@given(mutation=mutations())
@settings(max_examples=300, deadline=None, suppress_health_check=SLOW_MACHINE)
def test_whatever_is_asked_can_be_recorded_and_is_refused_or_answered_as_before(
    mutation: tuple[str, Path, str, Any],
) -> None:
    case, path, kind, new = mutation
    try:
        body = objects.parse(json.dumps(mutate(CASES[case], path, kind, new)))
    except ValueError:
        return  # Refused before anybody looks at it.
    told = replace(DEFAULT, path=questions.path_of(CASES[case]))
    kept = json.loads(json.dumps(recording.recorded(body, told)))
    assert refusal(kept, told) == refusal(body, told)


def refusal(body: Obj, told: Circumstances) -> str:
    try:
        answer(body, told)
    except wire.RequestError as error:
        return str(error)
    return ""


# --- The folder.


def test_files_sort_by_time_and_tell_whom_they_are_about(tmp_path: pathlib.Path) -> None:
    recorder = Recorder(tmp_path, SETTINGS)
    body = golden.request("created")
    for seconds in (2, 0, 1):
        at = NOON + datetime.timedelta(seconds=seconds)
        recorder.record(questions.COMPOSITE_SYNC, body, at=at)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        f"20260601T12000{second}000000Z-llmservice-sync-ns-m.json" for second in range(3)
    ]
    assert json.loads(files[2].read_text())["recorded"]["at"] == "2026-06-01T12:00:02+00:00"


def test_the_oldest_recordings_go_and_other_files_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_FILES", 3)
    (tmp_path / "00-notes.json").write_text("mine")
    recorder = Recorder(tmp_path, SETTINGS)
    for second in range(5):
        at = NOON + datetime.timedelta(seconds=second)
        recorder.record(questions.COMPOSITE_SYNC, golden.request("created"), at=at)
    kept = sorted(file.name[:15] for file in tmp_path.iterdir())
    assert kept == ["00-notes.json", "20260601T120002", "20260601T120003", "20260601T120004"]


def test_a_file_that_was_being_written_when_the_process_ended_is_cleared_away(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / ".recording-abc").write_text("{")
    Recorder(tmp_path, SETTINGS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [[], 5, {"parent": 5}, {"parent": {"metadata": {"name": "../../x", "namespace": "/"}}}],
)
def test_whatever_is_asked_stays_in_the_folder(tmp_path: pathlib.Path, body: Any) -> None:
    folder = tmp_path / "recorded"
    Recorder(folder, SETTINGS).record(questions.COMPOSITE_SYNC, body, at=NOON)
    assert list(tmp_path.iterdir()) == [folder]
    assert all("/" not in file.name for file in folder.iterdir())


def test_a_folder_that_is_gone_costs_no_answer(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recorded"
    recorder = Recorder(folder, SETTINGS)
    folder.rmdir()
    body = with_secrets(golden.request("created"))
    recorder.record(questions.COMPOSITE_SYNC, body, at=NOON)
    (record,) = caplog.records
    assert record.getMessage() == "request not recorded"
    assert SECRET not in str(record.__dict__)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (5, "recorded: expected an object"),
        ({"path": "/x"}, 'recorded.path: found "/x", expected one of /llmservice/sync'),
        ({"at": "noon"}, "recorded.at: expected a time like"),
        ({"settings": {}}, "recorded.settings.gateway_image: "),
    ],
)
def test_a_member_that_is_wrong_is_refused_by_name(told: Any, sentence: str) -> None:
    with pytest.raises(recording.RecordingError, match=r"^recorded") as caught:
        recording.circumstances_of({"recorded": told}, DEFAULT)
    assert str(caught.value).startswith(sentence)


def test_settings_of_an_older_or_newer_version_can_be_read() -> None:
    told = {"recorded": {"settings": {"gateway_image": "g", "of_the_future": 1}}}
    found = recording.circumstances_of(told, DEFAULT)
    assert found.settings.gateway_image == "g"
    assert found.settings.paths == SETTINGS.paths
