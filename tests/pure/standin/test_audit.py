"""The audit log is read while the API server writes to it."""

import json
import pathlib

from tests.cluster import audit


def _line(name: str) -> str:
    event = {"verb": "get", "user": {}, "objectRef": {"name": name}}
    return json.dumps({**event, "requestReceivedTimestamp": "2026-06-01T12:00:00Z"}) + "\n"


def test_a_mark_within_a_line_is_after_it_and_the_last_line_may_be_unfinished(
    tmp_path: pathlib.Path,
) -> None:
    log = audit.Log(tmp_path / "audit.log")
    written = _line("first") + _line("second")
    log.path.write_text(written[:-20])
    within = log.mark()
    log.path.write_text(written)
    between = log.mark()
    log.path.write_text(written + _line("third") + _line("fourth")[:-20])
    for mark in (within, between):
        assert [event.name for event in log.events(since=mark)] == ["third"]
    assert [event.name for event in log.events()] == ["first", "second", "third"]
