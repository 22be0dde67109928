"""The offline tools as programs, where that differs from calling them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.pure.hooks.golden import FIXTURES

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "local"]


def test_a_reader_that_has_enough_is_no_error() -> None:
    """As with ``noctaya replay ... | head -1``, whether or not the rest still fits into a pipe."""
    request = FIXTURES / "serving-in-full" / "request.json"
    program = subprocess.Popen(
        [*COMMAND, "replay", request], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None and program.stderr is not None
    assert program.stdout.readline().startswith("# asked /llmservice/sync")
    program.stdout.close()
    assert program.stderr.read() == ""
    assert program.wait(timeout=60) in (0, 141)
    program.stderr.close()


def test_a_wrong_call_shows_how_it_is_meant() -> None:
    ended = subprocess.run([*COMMAND, "replay"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "REQUEST.json" in ended.stderr
