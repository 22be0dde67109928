"""What is told, and what is not worth a line."""

import dataclasses
import datetime
import json
from pathlib import Path

from hooks.llmservice.reasons import Reason
from local import report
from local.report import Snapshot

AT_REST = Snapshot(
    service="echo",
    namespace="default",
    phase="ScaledToZero",
    reason="ScaledToZero",
    message="A request starts one.",
    replicas=0,
    waiting=0,
    running=0,
    endpoint="http://127.0.0.1:8080/v1",
)


def changed(**changes: object) -> Snapshot:
    return dataclasses.replace(AT_REST, **changes)  # type: ignore[arg-type]


def test_a_person_is_told_of_the_first_request_and_not_of_each() -> None:
    busy, busier = changed(running=1), changed(running=7)
    assert report.is_news(busy, AT_REST, as_json=False)
    assert not report.is_news(busier, busy, as_json=False)
    assert report.is_news(changed(running=1, replicas=1), busy, as_json=False)


def test_a_program_is_told_of_every_change_and_of_nothing_else() -> None:
    assert report.is_news(changed(running=7), changed(running=1), as_json=True)
    assert not report.is_news(AT_REST, AT_REST, as_json=True)


def test_the_first_look_is_always_news() -> None:
    assert report.is_news(AT_REST, None, as_json=False)
    assert report.is_news(AT_REST, None, as_json=True)


def test_lines_are_for_a_person_or_a_program() -> None:
    noon = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
    assert report.line(changed(waiting=2), at=noon) == (
        "12:00:00  default/echo  ScaledToZero  [0 ready, 2 waiting, 0 running]  "
        "ScaledToZero: A request starts one."
    )
    east = noon.astimezone(datetime.timezone(datetime.timedelta(hours=2)))
    told = json.loads(report.json_line(AT_REST, at=east))
    assert told == {"time": "2026-11-30T12:00:00.000+00:00", **dataclasses.asdict(AT_REST)}


def test_a_status_is_told_in_words_that_mean_something_on_one_machine() -> None:
    for reason in (Reason.ACTIVATING, Reason.STARTING, Reason.CRASH_LOOP_BACK_OFF):
        told = report.message(reason.value, f"It ended. {reason.help}", "")
        assert told.startswith("It ended. ")
        assert not any(word in told for word in ("Pod", "node", "kubectl")), told
    assert report.message("Available", "replicas ready: 1", "") == "replicas ready: 1"


def test_a_refused_readiness_request_is_told_while_the_engine_is_said_to_load() -> None:
    refusal = "GET /healthy is answered 404"
    assert report.message("ModelLoading", "It loads.", refusal) == (
        "It loads. GET /healthy is answered 404: see spec.health.readiness of its InferenceRuntime."
    )
    assert report.message("Available", "It runs.", refusal) == "It runs."


def test_the_call_to_paste_names_the_model_where_one_is_known() -> None:
    told = report.introduction(AT_REST.endpoint, "echo", Path("/logs"), keyed=False)
    assert "http://127.0.0.1:8080/v1/chat/completions" in told
    assert '"model": "echo"' in told
    without = report.introduction(AT_REST.endpoint, None, Path("/logs"), keyed=False)
    assert '"model"' not in without


def test_the_call_to_paste_has_a_place_for_a_key_where_one_is_asked_for() -> None:
    asked, not_asked = (
        report.introduction(AT_REST.endpoint, None, Path("/logs"), keyed=keyed)
        for keyed in (True, False)
    )
    assert "-H 'Authorization: Bearer YOUR-KEY' -d" in asked
    assert "Authorization" not in not_asked
