"""Starts the engine as anybody would, by its command, and ends it after the test."""

import contextlib
import dataclasses
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

COMMAND = Path(sys.executable).with_name("noctaya-echo")

# Ten times what a start takes on a busy machine with two cores.
START_SECONDS = 20.0


@dataclasses.dataclass
class Engine:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.listens():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"not listening after {START_SECONDS} s"
            time.sleep(0.01)

    def post(self, path: str, body: Any, **more: Any) -> requests.Response:
        return requests.post(f"{self.url}{path}", json=body, timeout=30, **more)

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


Start = Callable[..., Engine]


@contextlib.contextmanager
def starter(folder: Path) -> Iterator[Start]:
    """Start engines with some flags, each on its own port; ``wait=False`` before it listens."""
    started: list[Engine] = []

    def start_engine(*flags: str, wait: bool = True) -> Engine:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        log = folder / f"engine-{len(started)}.log"
        command = [str(COMMAND), "--host", "127.0.0.1", "--port", str(port), *flags]
        with log.open("wb") as file:
            engine = Engine(process=subprocess.Popen(command, stderr=file), port=port, log=log)
        started.append(engine)
        if wait:
            engine.wait_until_it_listens()
        return engine

    try:
        yield start_engine
    finally:
        for engine in started:
            engine.process.kill()
            engine.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starter(tmp_path) as start_engine:
        yield start_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all tests of a module that leave it as it was."""
    with starter(tmp_path_factory.mktemp("engine")) as start_engine:
        yield start_engine("--model", "org/name", "--served-model-name", "echo", "alias")
