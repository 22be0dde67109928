"""Whole syncs, from a recorded request to the whole answer.

A difference in a backend's Pod template restarts every engine of that kind at the next upgrade
(rule 7): change a golden template only when that is meant.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from local import recordings
from tests.pure.hooks import golden

EACH_CASE = pytest.mark.parametrize("case", golden.cases())


@EACH_CASE
def test_the_answer_is_the_expected_one(case: str, update_golden: bool) -> None:
    text = recordings.to_yaml(golden.answer(golden.request(case)))
    expected = golden.FIXTURES / case / "expected.yaml"
    if update_golden:
        expected.write_text(text)
    assert text == expected.read_text()


@EACH_CASE
def test_the_answer_holds_nothing_that_makes_metacontroller_write_for_ever(case: str) -> None:
    """No nulls and no empty lists: an API server stores neither."""

    def walk(value: object, path: str) -> None:
        assert value is not None, path
        assert value != [], path
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    answer = golden.answer(golden.request(case))
    for child in [*answer.get("children", []), *answer.get("attachments", [])]:
        walk(child, child["kind"])


def test_the_same_request_gives_the_same_bytes_in_another_process() -> None:
    """Under another hash seed, as in the hooks' other replica."""
    script = (
        "from local import recordings\n"
        "from tests.pure.hooks import golden\n"
        "for case in golden.cases():\n"
        "    print(recordings.to_yaml(golden.answer(golden.request(case))))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_no_answer_depends_on_which_fixture_stands_next_to_it() -> None:
    """Nothing is remembered from one request to the next."""
    forwards = [golden.answer(golden.request(case)) for case in golden.cases()]
    backwards = [golden.answer(golden.request(case)) for case in reversed(golden.cases())]
    assert forwards == list(reversed(backwards))
