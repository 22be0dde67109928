"""What cannot be started ends the run in a line, and never leaves a service stuck."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.process.local.conftest import (
    COMMAND,
    EXAMPLE,
    START_SECONDS,
    Manifests,
    Start,
    Up,
    free_port,
    wait_until_gone,
)


def gateway(running: Up) -> psutil.Process:
    (found,) = (one for one in running.tree() if "gateway" in one.cmdline())
    return found


def test_of_two_runs_on_one_port_one_serves_and_the_other_fails(up: Start) -> None:
    port = free_port()
    running = [up(EXAMPLE, flags=("--port", str(port))) for _ in range(2)]
    deadline = time.monotonic() + START_SECONDS
    while all(one.process.poll() is None for one in running):
        assert time.monotonic() < deadline, [one.out.read_text() for one in running]
        time.sleep(0.05)
    loser, winner = sorted(running, key=lambda one: one.process.poll() is None)
    assert loser.process.returncode == 1
    assert loser.err.read_text() == (
        f"noctaya: --port: cannot listen on 127.0.0.1:{port}: Address already in use; choose "
        "another with --port\n"
    )
    assert "takes requests" not in loser.out.read_text()
    winner.wait_for_text(f"http://127.0.0.1:{port}/v1 takes requests")


def test_text_that_no_program_can_get_is_refused_before_anything_starts(
    up: Start, manifests: Manifests
) -> None:
    manifests.runtime["spec"]["container"]["args"] = ["a\0b"]
    running = up(manifests.write())
    assert running.process.wait(timeout=60) == 2
    error = running.err.read_text()
    assert error.startswith(f"noctaya: {manifests.folder}/runtime.yaml:")
    assert "holds a NUL" in error
    assert error.count("\n") == 1
    assert running.out.read_text() == ""


def test_a_folder_of_the_run_that_takes_no_file_ends_it(up: Start, manifests: Manifests) -> None:
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    tree = running.tree()
    (state,) = running.temporary.iterdir()
    shutil.rmtree(state)
    gateway(running).kill()
    assert running.process.wait(timeout=60) == 1
    error = running.err.read_text()
    assert error.startswith(f"noctaya: {state}: cannot be written: ")
    assert error.count("\n") == 1
    wait_until_gone(tree)


def test_the_folder_goes_although_the_keeper_was_killed(up: Start, manifests: Manifests) -> None:
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    (keeper,) = (one for one in running.tree() if "keeper.py" in " ".join(one.cmdline()))
    keeper.kill()
    assert running.end() == 0
    assert running.err.read_text() == ""
    assert list(running.temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param('"$@" >/dev/full', "standard output: No space left on device", id="full"),
        pytest.param('"$@" >&-', "standard output is closed", id="closed"),
    ],
)
@pytest.mark.parametrize(
    "arguments", [("render", EXAMPLE), ("up", EXAMPLE, "--port", "PORT")], ids=["render", "up"]
)
def test_an_answer_that_cannot_be_printed_is_a_failure(
    words: str, said: str, arguments: tuple[Any, ...]
) -> None:
    port = str(free_port())
    done = subprocess.run(
        ["sh", "-c", words, "sh", COMMAND, *(port if one == "PORT" else one for one in arguments)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"noctaya: {said}")
    assert done.stderr.count("\n") == 1


def test_an_answer_that_the_encoding_lacks_is_a_failure(tmp_path: Path) -> None:
    for name in ("llmservice.yaml", "runtime.yaml"):
        text = (EXAMPLE / name).read_text()
        (tmp_path / name).write_text(text.replace('"{{.Model.Path}}"', '"é"'))
    done = subprocess.run(
        [COMMAND, "render", tmp_path],
        capture_output=True,
        text=True,
        env={"PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("noctaya: standard output: its encoding ascii has no '\\xe9'")
    assert done.stderr.count("\n") == 1
