"""The preStop command, run by real shells beside a real listener.

The script finds its listener in /proc/net/tcp, so its seconds are real ones; the ten quiet checks
make the shortest drain ten seconds, and the tests that need one run it once.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest

from hooks.llmservice import drain
from tests.pure.hooks.test_api import runtime

pytestmark = pytest.mark.process

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
TOOLS = ["python3", "curl", "wget"]

IDLE = 'vllm:num_requests_running{engine="0"} 0.0\nvllm:num_requests_waiting 0.0\n'
BUSY = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_waiting 0.0\n'


class Engine:
    """Serves whatever metrics it is told to."""

    def __init__(self) -> None:
        self.metrics = IDLE
        self.asked = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[int]:
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(("# HELP x y\n" + engine.metrics).encode())

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def script(port: int, *, seconds: int) -> str:
    spec = runtime(
        container={"image": "engine:1", "port": {"containerPort": port}},
        lifecycle={"preStopDrain": True},
        metrics={
            "queueDepth": "vllm:num_requests_waiting",
            "running": "vllm:num_requests_running",
        },
    )
    handler = drain.pre_stop(spec, drain=Decimal(seconds))
    command: list[str] = handler["exec"]["command"]
    assert command[:2] == ["/bin/sh", "-c"]
    return command[2]


def run(shell: str, text: str, *, path: str | None = None) -> float:
    """How many seconds the script takes under ``shell``."""
    command = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else []), "-c", text]
    started = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        env={"PATH": path if path is not None else os.environ["PATH"]},
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return time.monotonic() - started


def only(tmp_path: pathlib.Path, *tools: str) -> str:
    """A PATH that holds what every image has, and these tools."""
    for tool in ("date", "grep", "sleep", *tools):
        # Not a version manager's shim, which is a script that needs more than this.
        found = sys.executable if tool == "python3" else shutil.which(tool)
        if found is None:
            pytest.skip(f"{tool} is not installed here")
        (tmp_path / tool).symlink_to(pathlib.Path(found).resolve())
    return str(tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_waited_for_where_nothing_listens(shell: str) -> None:
    with Engine().listening() as port:
        pass
    assert run(shell, script(port, seconds=60)) < 5


def test_a_listener_is_found_without_grep_too(tmp_path: pathlib.Path) -> None:
    path = only(tmp_path)
    (tmp_path / "grep").unlink()
    with Engine().listening() as port:
        assert run("dash", script(port, seconds=3), path=path) >= 2
    assert run("dash", script(port, seconds=100), path=path) < 60


@pytest.mark.parametrize("shell", SHELLS)
def test_a_busy_engine_is_given_its_whole_time(shell: str) -> None:
    engine = Engine()
    engine.metrics = BUSY
    with engine.listening() as port:
        assert 7 <= run(shell, script(port, seconds=8)) < 40
    assert engine.asked >= 2


@pytest.mark.parametrize("tool", TOOLS)
def test_an_idle_engine_is_let_go_after_ten_quiet_checks(tmp_path: pathlib.Path, tool: str) -> None:
    path = only(tmp_path, tool)
    engine = Engine()
    with engine.listening() as port:
        taken = run("dash", script(port, seconds=100), path=path)
    assert 9 <= taken < 60
    assert engine.asked == 10


def test_a_request_in_between_starts_the_count_again() -> None:
    engine = Engine()
    with engine.listening() as port:
        threading.Timer(4.5, setattr, (engine, "metrics", BUSY)).start()
        threading.Timer(6.5, setattr, (engine, "metrics", IDLE)).start()
        assert run("dash", script(port, seconds=100)) >= 15


def test_an_engine_that_ends_first_is_not_waited_for() -> None:
    engine = Engine()
    engine.metrics = BUSY
    ended = threading.Event()

    def live() -> None:
        with engine.listening() as port:
            ports.append(port)
            listens.set()
            ended.wait()

    ports: list[int] = []
    listens = threading.Event()
    thread = threading.Thread(target=live)
    thread.start()
    listens.wait()
    threading.Timer(2, ended.set).start()
    assert run("dash", script(ports[0], seconds=100)) < 30
    thread.join()


def test_metrics_without_the_named_ones_prove_nothing() -> None:
    engine = Engine()
    engine.metrics = "other 0\n"
    with engine.listening() as port:
        assert run("dash", script(port, seconds=4)) >= 3


def test_without_a_tool_the_whole_time_is_slept(tmp_path: pathlib.Path) -> None:
    engine = Engine()
    with engine.listening() as port:
        assert run("dash", script(port, seconds=4), path=only(tmp_path)) >= 3
    assert engine.asked == 0
