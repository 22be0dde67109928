"""The hooks as they are served: gunicorn with the image's own options, on loopback."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time

import requests

ROOT = pathlib.Path(__file__).parents[3]
START_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server and what it wrote."""

    url: str
    log: pathlib.Path


def options() -> list[str]:
    """The options of the image's entry point, but for the address."""
    lines = (ROOT / "hooks" / "Dockerfile").read_text().partition("ENTRYPOINT [")[2]
    words = shlex.split(lines.partition("]")[0].replace("\\\n", " ").replace(",", " "))
    return [word for word in words[1:] if word.startswith("--") and "--bind" not in word]


def start(
    port: int, log: pathlib.Path, environment: dict[str, str], *arguments: str
) -> subprocess.Popen[bytes]:
    """``arguments`` are those of the container, after the image's entry point."""
    command = [sys.executable, "-m", "gunicorn", f"--bind=127.0.0.1:{port}", *options()]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "hooks.app:create_app()", *arguments],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]} | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(
    url: str, process: subprocess.Popen[bytes], log: pathlib.Path, *, verify: str | bool = True
) -> None:
    """``verify`` is the file of the authority that signed the server's certificate."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{url}/readyz", timeout=5, verify=verify).status_code == 200:
                return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError(f"the hooks did not start:\n{log.read_text()}")
