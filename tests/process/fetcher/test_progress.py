"""What a person sees while a model comes: lines in a log, a bar on a terminal."""

import json
import os
import pathlib
import time

import pytest

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
SIZE = 3_000_000


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files={"w.safetensors": models.noise(SIZE)})
    return hub.repos["org/m"]


def pausing(hub: localhub.LocalHub, seconds: float) -> None:
    """Send two thirds of the file, pause, then hang up; the rest is asked for."""

    def fault(exchange: localhub.Exchange) -> bool:
        if exchange.kind != "cdn" or exchange.start or exchange.content is None:
            return False
        exchange.send_content(exchange.content, cut_after=2 * 1024 * 1024)
        time.sleep(seconds)
        return True

    hub.fault = fault


def test_a_log_gets_a_line_every_ten_seconds_and_a_summary_last(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    pausing(hub, 12)
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    (line,) = run.err.splitlines()
    assert line.startswith("2.0 MiB of 2.9 MiB (69 %), ")
    assert line.endswith(" s left")
    assert "\r" not in run.err
    assert json.loads(run.out)["bytes"] == SIZE


def test_a_short_run_is_quiet(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert (run.code, run.err, len(run.out.splitlines())) == (0, "", 1)


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    pausing(hub, 1.5)
    ours, theirs = os.openpty()
    process = rig.start(
        "stage", "hf://org/m", f"--cache={cache}", environ=hub.environ(), stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # The other side is closed.
            break
        if not block:
            break
        seen += block
    os.close(ours)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"\r[################........] 2.0 MiB of 2.9 MiB (69 %)" in seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen
