"""Starts ``noctaya up`` as a user would, on manifests made from the shipped example."""

import contextlib
import copy
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
import yaml

COMMAND = Path(sys.executable).with_name("noctaya")
EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "echo"

# Ten times what a start takes on a busy machine with two cores.
START_SECONDS = 30.0

Line = dict[str, Any]


@dataclasses.dataclass
class Up:
    process: subprocess.Popen[bytes]
    port: int
    out: Path
    err: Path
    logs: Path
    temporary: Path
    """The only place where it may make files of its own."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=60)

    def lines(self) -> list[Line]:
        """What it has reported with ``-o json``."""
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def wait_for(self, wanted: Callable[[Line], bool], *, after: int = 0, seconds: float) -> Line:
        """The first line that is wanted, of those after so many."""
        deadline = time.monotonic() + seconds
        while True:
            found = next(filter(wanted, self.lines()[after:]), None)
            if found is not None:
                return found
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < deadline, f"only: {self.out.read_text()[-3000:]}"
            time.sleep(0.05)

    def wait_for_text(self, wanted: str, *, seconds: float = START_SECONDS) -> str:
        """All that it has printed once that holds ``wanted``."""
        deadline = time.monotonic() + seconds
        while wanted not in (text := self.out.read_text()):
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < deadline, text[-3000:]
            time.sleep(0.05)
        return text

    def wait_until_it_sleeps(self, *, after: int = 0, seconds: float = START_SECONDS) -> Line:
        return self.wait_for(
            lambda line: line["phase"] == "ScaledToZero", after=after, seconds=seconds
        )

    def engines(self) -> list[psutil.Process]:
        return [process for process in self.tree() if "noctaya-echo" in " ".join(_words(process))]

    def tree(self) -> list[psutil.Process]:
        """All that it has started, however deep."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


def wait_until_gone(processes: list[psutil.Process], *, seconds: float = 10) -> None:
    """An ended process that nobody has reaped yet counts as gone."""
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if _lives(process)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


@dataclasses.dataclass
class Manifests:
    """The example, to be changed by a test before it is written."""

    folder: Path
    service: Any
    runtime: Any

    @property
    def scaling(self) -> Any:
        return self.service["spec"]["scaling"]

    def command(self, *words: str) -> None:
        annotations = self.runtime["metadata"]["annotations"]
        annotations["serving.noctaya.io/local-command"] = json.dumps(words)

    def write(self) -> Path:
        for name, value in (("llmservice", self.service), ("runtime", self.runtime)):
            (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(value))
        return self.folder


@pytest.fixture
def manifests(tmp_path: Path) -> Manifests:
    folder = tmp_path / "manifests"
    folder.mkdir()
    service, runtime = (
        yaml.safe_load((EXAMPLE / name).read_text()) for name in ("llmservice.yaml", "runtime.yaml")
    )
    return Manifests(folder=folder, service=service, runtime=copy.deepcopy(runtime))


Start = Callable[..., Up]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Start]:
    """Start it on paths, with ``-o json`` unless told otherwise; what is left is killed."""
    started: list[Up] = []

    def start(*paths: Path, flags: tuple[str, ...] = ("-o", "json")) -> Up:
        folder = tmp_path / f"up-{len(started)}"
        folder.mkdir()
        port = free_port()
        out, err, logs = folder / "out", folder / "err", folder / "logs"
        temporary = folder / "temporary"
        temporary.mkdir()
        command = [str(COMMAND), "up", *map(str, paths), "--port", str(port), *flags]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*command, "--log-dir", str(logs)],
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "TMPDIR": str(temporary)},
            )
        one = Up(process=process, port=port, out=out, err=err, logs=logs, temporary=temporary)
        started.append(one)
        return one

    yield start
    for one in started:
        left = one.tree() if one.process.poll() is None else []
        one.process.kill()
        one.process.wait()
        # The keeper ends the others and removes the files; what is left then is a bug.
        _, left = psutil.wait_procs(left, timeout=10)
        for process in left:
            process.kill()
        assert not left


def free_port() -> int:
    """One whose successor is free too, for a second service."""
    while True:
        with socket.socket() as sock, socket.socket() as successor:
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                successor.bind(("127.0.0.1", port + 1))
                return port
