"""``noctaya test``: folders of ``request.json`` and ``expected.yaml``, held against the hooks."""

import dataclasses
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hooks import wire
from local import comparing, documents, printing, recordings
from local.comparing import Difference
from local.errors import Failure, Usage

REQUEST = "request.json"
EXPECTED = "expected.yaml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one fixture."""

    name: str
    differences: Sequence[Difference]


def run(folder: Path) -> None:
    """Tests each fixture of ``folder`` and prints what it finds. Raises Usage or Failure.

    A request without an expected answer fails at the end, and keeps no other from being tested.
    """
    cases = find(folder)
    incomplete = [case for case in cases if not (case / EXPECTED).exists()]
    results = [check(case) for case in cases if case not in incomplete]
    for result in results:
        printing.say("\n".join(told(result)))
    problems = [
        f"{case}: holds no {EXPECTED}: write what is expected, `noctaya replay` prints what is"
        for case in incomplete
    ]
    failed = sum(bool(result.differences) for result in results)
    if failed:
        problems.append(f"{folder}: {failed} of {len(results)} answers are not the expected ones")
    if problems:
        raise Failure(*problems)
    printing.say(f"{len(results)} answers are the expected ones")


def find(folder: Path) -> list[Path]:
    """The fixtures: ``folder`` itself, or the folders in it. Raises Usage."""
    try:
        if not folder.is_dir():
            raise Usage(f"{folder}: no such folder")
        if (folder / REQUEST).is_file():
            return [folder]
        cases = sorted(file.parent for file in folder.glob(f"*/{REQUEST}"))
    except OSError as e:
        raise Usage(f"{folder}: cannot be read: {e.strerror}") from e
    if not cases:
        raise Usage(f"{folder}: holds no {REQUEST}, nor does a folder in it")
    return cases


def check(case: Path) -> Result:
    """The fixture's answer beside the expected one. Raises Usage."""
    expected = _expected(case / EXPECTED)
    asked = recordings.read(case / REQUEST)
    try:
        answer = recordings.answer(asked)
    except wire.RequestError as e:
        # Refused with 400 and this body.
        answer = {"error": str(e)}
    return Result(name=case.name, differences=list(comparing.differences(expected, answer)))


def told(result: Result) -> list[str]:
    """The result in lines for a person."""
    if not result.differences:
        return [f"ok    {result.name}"]
    lines = [f"FAIL  {result.name}"]
    for difference in result.differences:
        lines.append(f"      {difference.path or 'the answer'}")
        lines.append(_line("expected", difference.expected))
        lines.append(_line("found", difference.found))
    return lines


def _line(label: str, value: str) -> str:
    return textwrap.indent(f"{label + ':':<10}{value}", "        ")


def _expected(file: Path) -> Any:
    found = documents.load([file])
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise Usage(f"{file}: expected one object with fields of an answer like children or status")
    return found[0].value
