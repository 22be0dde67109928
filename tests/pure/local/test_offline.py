"""``noctaya render``, ``replay`` and ``test`` as they are called; nothing of them is started."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from typing import Any

import pytest
import yaml

from hooks import questions, recording
from hooks.recording import Circumstances
from local import cli
from tests.pure.hooks import golden
from tests.pure.hooks.world import EXAMPLES, NOON, SETTINGS

ECHO = EXAMPLES / "echo"


class Call:
    """A call of the command: its exit code and what it printed."""

    def __init__(self, *argv: object, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        self.code = 0
        try:
            cli.main([str(word) for word in argv])
        except SystemExit as end:
            self.code = end.code if isinstance(end.code, int) else 1
        self.out, self.err = capsys.readouterr()


# --- test


def test_our_own_fixtures_pass(capsys: pytest.CaptureFixture[str]) -> None:
    call = Call("test", golden.FIXTURES, capsys=capsys)
    assert (call.code, call.err) == (0, "")
    assert call.out.splitlines()[-1] == f"{len(golden.cases())} answers are the expected ones"


def test_the_fixtures_tell_the_time_and_the_settings_that_they_were_made_with() -> None:
    """`tests/fixtures/recorded.json` says to the command what `world.py` says to the tests."""
    told = json.loads((golden.FIXTURES / "recorded.json").read_text())
    found = Circumstances(path=questions.COMPOSITE_SYNC, at=NOON, settings=SETTINGS)
    expected = recording.written(found)
    assert told == {"at": expected["at"], "settings": expected["settings"]}


def fixture(folder: pathlib.Path, case: str = "at-zero") -> pathlib.Path:
    """A copy of one of ours, with what it shares with the others."""
    shutil.copytree(golden.FIXTURES / case, folder / case)
    shutil.copy(golden.FIXTURES / "recorded.json", folder)
    return folder / case


def test_fields_may_be_left_out_of_what_is_expected(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fixture(tmp_path) / "expected.yaml").write_text("status:\n  phase: ScaledToZero\n")
    assert Call("test", tmp_path, capsys=capsys).out == (
        "ok    at-zero\n1 answers are the expected ones\n"
    )


def test_times_without_quotes_are_text_as_kubectl_reads_them(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "status: {conditions: [{lastTransitionTime: 2026-06-01T12:00:00Z}, {}, {}, {}]}"
    (fixture(tmp_path) / "expected.yaml").write_text(expected)
    assert Call("test", tmp_path, capsys=capsys).code == 0


def test_a_difference_is_shown_with_its_path_and_is_a_failure(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = fixture(tmp_path)
    (case / "expected.yaml").write_text("status:\n  phase: Ready\n  replicas: 0\n")
    call = Call("test", tmp_path, capsys=capsys)
    assert call.code == 1
    assert call.out == (
        "FAIL  at-zero\n"
        "      status.phase\n"
        "        expected: Ready\n"
        "        found:    ScaledToZero\n"
    )
    assert call.err == f"noctaya: {tmp_path}: 1 of 1 answers are not the expected ones\n"


def test_one_folder_can_be_named_by_itself(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Call("test", fixture(tmp_path), capsys=capsys).code == 0


def test_a_refusal_can_be_expected(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = fixture(tmp_path)
    (case / "request.json").write_text('{"parent": {"metadata": {}}, "children": {}}')
    (case / "expected.yaml").write_text('error: "related: is required"')
    assert Call("test", tmp_path, capsys=capsys).code == 0


def test_a_request_without_an_expected_answer_fails_after_all_others_were_tested(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = fixture(tmp_path, "activating")
    (bare / "expected.yaml").unlink()
    fixture(tmp_path, "at-zero")
    call = Call("test", tmp_path, capsys=capsys)
    assert call.code == 1
    assert call.out == "ok    at-zero\n"
    assert call.err.startswith(f"noctaya: {bare}: holds no expected.yaml: ")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("request.json", "{", "request.json:1: not JSON"),
        ("request.json", "[]", "request.json: no request to the hooks"),
        ("request.json", '{"recorded": {"at": 5}, "parent": {}}', "recorded.at: expected a time"),
        ("expected.yaml", "a: [", "expected.yaml:1: not YAML"),
        ("expected.yaml", "- a", "expected.yaml: expected one object"),
    ],
)
def test_a_fixture_that_cannot_be_read_is_a_mistake_of_the_call(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    sentence: str,
) -> None:
    (fixture(tmp_path) / file).write_text(text)
    call = Call("test", tmp_path, capsys=capsys)
    assert call.code == 2
    assert sentence in call.err


def test_a_folder_without_fixtures_is_a_mistake_of_the_call(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        assert Call("test", folder, capsys=capsys).code == 2


# --- replay


@pytest.mark.parametrize("case", golden.cases())
def test_an_answer_is_printed_in_the_form_of_an_expected_one(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call("replay", golden.FIXTURES / case / "request.json", capsys=capsys)
    assert call.code == 0
    reasons = [line for line in call.out.splitlines() if line.startswith("# ")]
    answer = "".join(line for line in call.out.splitlines(True) if not line.startswith("# "))
    assert len(reasons) >= 3
    assert answer == (golden.FIXTURES / case / "expected.yaml").read_text()


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("created", "spec: resolves, with InferenceRuntime echo"),
        ("created", "replicas of the backend: 0, as rendered"),
        ("mistake", "spec: does not resolve, SpecInvalid: "),
        ("mistake", "children: as they were last applied"),
        ("mistake", "(the spec does not resolve)"),
        ("created-with-mistake", "replicas of the backend: none"),
        ("kedas-number-echoed", "as observed: the number was handed over to KEDA"),
        ("name-taken", "a name that is held by an object that is not ours"),
        ("serving", "(a replica is ready); Ready is True, Available: "),
        ("gateway-starting", "(no gateway is available)"),
        (
            "gateways-to-several",
            "gateways: 1 on the way between one and several, wanted: 2; KEDA's Service leads to the"
            " scaler of several",
        ),
        ("gateways-back-to-one", "wanted: 1; KEDA's Service leads to the one gateway"),
        ("keda-waits", "hand-over to KEDA: waits for the scaler"),
        ("keda-attach", "hand-over to KEDA: step 3"),
        ("keda-annotation-first", "hand-over to KEDA: step 1"),
        ("keda-serving", 'words of KEDA for the Composite: {"message":'),
    ],
)
def test_the_reasons_for_an_answer_are_said(
    case: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call("replay", golden.FIXTURES / case / "request.json", capsys=capsys)
    reasons = [line for line in call.out.splitlines() if line.startswith("# ")]
    assert any(sentence in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("controller", "related"),
    [("CompositeController", "pods of v1 in ns"), ("DecoratorController", "scaledobjects of keda")],
)
def test_a_question_for_related_objects_is_told_by_its_controller(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], controller: str, related: str
) -> None:
    parent = golden.request("created")["parent"]
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"controller": {"kind": controller}, "parent": parent}))
    call = Call("replay", file, capsys=capsys)
    assert f"# related: {related}" in call.out
    assert yaml.safe_load(call.out)["relatedResources"]


def test_a_time_that_nobody_told_is_said_to_be_none(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(golden.request("created")))
    assert "since the file does not tell when" in Call("replay", file, capsys=capsys).out


def test_a_request_that_the_hooks_refuse_is_a_failure(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"parent": {"metadata": {}}, "children": {}, "related": {}}')
    call = Call("replay", file, capsys=capsys)
    assert call.code == 1
    assert (
        call.err == f"noctaya: {file}: refused with 400: the parent's metadata.name is not a name\n"
    )


# --- render


def rendered(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def test_the_objects_are_those_that_a_cluster_first_gets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A fixture's children but for the name and the namespace; the gateway's image is a default."""
    call = Call("render", ECHO, capsys=capsys)
    assert (call.code, call.err) == (0, "")
    *children, scaled_object = rendered(call.out)
    expected = yaml.safe_load((golden.FIXTURES / "created" / "expected.yaml").read_text())
    names = [child["metadata"]["name"].replace("echo", "m", 1) for child in children]
    assert names == [child["metadata"]["name"] for child in expected["children"]]
    assert [set(child) for child in children] == [set(child) for child in expected["children"]]
    assert {child["metadata"]["namespace"] for child in children} == {"default"}
    assert scaled_object["kind"] == "ScaledObject"
    assert scaled_object["spec"]["scaleTargetRef"]["name"] == "echo-backend"
    for obj in (*children, scaled_object):
        assert not {"uid", "ownerReferences"} & set(obj["metadata"])
        assert "metacontroller" not in json.dumps(obj)


def test_the_same_manifests_give_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (Call("render", ECHO, capsys=capsys).out for _ in range(2))
    assert first == second


def test_the_hooks_settings_are_taken_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOCTAYA_GATEWAY_IMAGE", "registry.example/gateway:7")
    assert "image: registry.example/gateway:7" in Call("render", ECHO, capsys=capsys).out
    monkeypatch.setenv("NOCTAYA_GATEWAY_REPLICAS", "none")
    call = Call("render", ECHO, capsys=capsys)
    assert (call.code, "NOCTAYA_GATEWAY_REPLICAS is 'none'" in call.err) == (2, True)


def test_a_local_command_is_not_needed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in ECHO.iterdir():
        text = file.read_text().replace("serving.noctaya.io/local-command", "example/other")
        (tmp_path / file.name).write_text(text)
    assert Call("render", tmp_path, capsys=capsys).code == 0


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("strategy: None", "strategy: Nonne", r"llmservice\.yaml:\d+: spec\.cache\.strategy"),
        (
            "name: echo\n  scaling",
            "name: ehco\n  scaling",
            r"llmservice\.yaml:\d+: spec\.runtime\.name",
        ),
        ("namespace: default", "annotations: {serving.noctaya.io/gateway-replicas: x}", r"'x'"),
        ("hf://noctaya/echo", "hf://noctaya", r"spec\.model\.source\.uri"),
    ],
)
def test_a_mistake_is_named_with_its_place_as_by_up(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    sentence: str,
) -> None:
    for file in ECHO.iterdir():
        (tmp_path / file.name).write_text(file.read_text().replace(old, new))
    call = Call("render", tmp_path, capsys=capsys)
    assert (call.code, call.out) == (2, "")
    assert re.search(sentence, call.err)


@pytest.mark.parametrize("odd", ['"\\ud800"', "NaN", "1e999"])
def test_what_no_api_server_writes_is_no_request(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], odd: str
) -> None:
    body = json.dumps(golden.request("runtime-accepted"))
    file = tmp_path / "request.json"
    file.write_text(body.replace('"annotations": {', '"annotations": {"x": ' + odd + ", ", 1))
    call = Call("replay", file, capsys=capsys)
    assert (call.code, call.out) == (2, "")
    assert call.err.startswith(f"noctaya: {file}: not JSON as an API server writes it: ")


def test_a_path_that_is_too_long_is_a_mistake_of_the_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = Call("test", pathlib.Path("a" * 5000), capsys=capsys)
    assert (call.code, call.out) == (2, "")
    assert call.err.endswith("cannot be read: File name too long\n")


def test_an_expected_answer_that_json_cannot_say_is_a_mistake(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "request.json").write_text("{}")
    (tmp_path / "expected.yaml").write_text("a: !!set {b}\n")
    call = Call("test", tmp_path, capsys=capsys)
    assert (call.code, call.out) == (2, "")
    assert f"{tmp_path}/expected.yaml:1: not YAML: " in call.err
