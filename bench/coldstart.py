"""How long a cold start takes and where the time goes: ``python -m bench.coldstart``.

Starts ``noctaya up`` on copies of the shipped echo example and lets one request at a time wake one
that sleeps. Between two of them the same engine is started bare, by a loop that does what anybody
would do without Noctaya: start the process, ask /health until it answers, send the request. Both
meet the same machine at the same time, so their ratio holds where the milliseconds do not.
"""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench import report, split
from bench.split import ColdStart

EXAMPLE = Path(__file__).parents[1] / "manifests" / "examples" / "echo"
BIN = Path(sys.executable).parent

# From an engine that listens to its request being sent. The Go original, on the same kind of
# machine: 244 ms and 472 ms.
TARGET_P50_MS = 20.0
TARGET_P95_MS = 50.0

# A service sleeps again 10 to 20 s after it woke (KEDA's polling), so so many give a cold start
# every second or two.
SERVICES = 12

# As often as the gateway asks a starting engine.
POLL_SECONDS = 0.015

BARE_MOMENTS = ("spawned", "started", "listens", "answers 200", "forwarded", "first byte")


def main() -> int:
    parser = report.flags("coldstart", __doc__)
    parser.add_argument("--count", type=int, default=200, help="default: %(default)s")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coldstart-") as folder:
        own, bare = _measure(Path(folder), flags.count)
    return report.publish(_section(own, bare), write=flags.write)


def _section(own: list[ColdStart], bare: list[ColdStart]) -> report.Section:
    ready = split.quantiles([start.between("listens", "forwarded") for start in own])
    whole = split.quantiles([start.between("accepted", "first byte") for start in own])
    alone = split.quantiles([start.between("spawned", "first byte") for start in bare])
    return report.Section(
        name="coldstart",
        title="Cold starts of the echo engine",
        how=(
            f"{len(own)} cold starts through `noctaya up`, in turns with bare starts of the same "
            "engine: start it, ask /health until it answers, send the request. A whole cold start "
            f"takes {whole.p50:.0f} ms, a bare one {alone.p50:.0f} ms: "
            f"{whole.p50 / alone.p50:.2f} times as long."
        ),
        table=[
            ["", "ms, p50", "ms, p95"],
            *_rows("", split.phases(own)),
            *_rows("bare: ", split.phases(bare, BARE_MOMENTS)),
        ],
        targets=[
            report.Target(
                what=f"engine listens and is ready -> forwarded, {which}",
                measured=measured,
                at_most=target,
                unit=" ms",
            )
            for which, measured, target in (
                ("p50", ready.p50, TARGET_P50_MS),
                ("p95", ready.p95, TARGET_P95_MS),
            )
        ],
    )


def _rows(prefix: str, phases: list[tuple[str, split.Quantiles]]) -> Iterator[tuple[str, str, str]]:
    for phase, found in phases:
        yield prefix + phase, f"{found.p50:.1f}", f"{found.p95:.1f}"


def _measure(folder: Path, count: int) -> tuple[list[ColdStart], list[ColdStart]]:
    own, bare = [], []
    with Fleet.started(folder) as fleet:
        for number in range(count):
            own.append(fleet.cold_start())
            bare.append(_bare_start(folder / "bare.log"))
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{count}", end="", file=sys.stderr)
    return own, bare


class Fleet:
    """``noctaya up`` on copies of the example, whose state is read from what it reports."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._told = 0
        self._asleep: dict[str, str] = {}
        """Endpoints by name, the longest asleep first."""

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator["Fleet"]:
        _write_manifests(folder / "manifests")
        command = [str(BIN / "noctaya"), "up", str(folder / "manifests"), "-o", "json"]
        command += ["--port", str(_free_ports()), "--log-dir", str(folder / "logs")]
        with (folder / "out").open("wb") as out:
            process = subprocess.Popen(command, stdout=out)
        try:
            yield cls(folder, process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()

    def cold_start(self) -> ColdStart:
        """Wake the service that sleeps longest."""
        name, endpoint = self._sleeper()
        logs = self._folder / "logs"
        gateway = logs / f"default_{name}_gateway.log"
        before = len(split.requests(gateway.read_text()))
        host, _, _ = endpoint.removeprefix("http://").partition("/")
        _ask(int(host.rpartition(":")[2]))
        while len(found := split.requests(gateway.read_text())) == before:
            time.sleep(0.01)
        return split.cold_start(found[-1], (logs / f"default_{name}_engine.log").read_text())

    def _sleeper(self) -> tuple[str, str]:
        while True:
            self._listen()
            if self._asleep:
                name = next(iter(self._asleep))
                return name, self._asleep.pop(name)
            if self._process.poll() is not None:
                sys.exit("noctaya up has ended")
            time.sleep(0.05)

    def _listen(self) -> None:
        lines = (self._folder / "out").read_text().splitlines()
        for line in lines[self._told :]:
            told = json.loads(line)
            if told["phase"] == "ScaledToZero":
                self._asleep.setdefault(told["service"], told["endpoint"])
            else:
                self._asleep.pop(told["service"], None)
        self._told = len(lines)


def _write_manifests(folder: Path) -> None:
    folder.mkdir()
    service, runtime = (
        yaml.safe_load((EXAMPLE / name).read_text()) for name in ("llmservice.yaml", "runtime.yaml")
    )
    # Cycles, not idle time and drains, are what is measured here.
    service["spec"]["scaling"] = {"scaleDownStabilization": "0s"}
    runtime["spec"]["lifecycle"] = {"preStopDrain": False}
    documents: list[Any] = [runtime]
    for number in range(SERVICES):
        metadata = {**service["metadata"], "name": f"echo-{number}"}
        documents.append({**service, "metadata": metadata})
    (folder / "echo.yaml").write_text(yaml.safe_dump_all(documents))


def _bare_start(log: Path) -> ColdStart:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    moments = {"spawned": time.time()}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [BIN / "noctaya-echo", "--host", "127.0.0.1", "--port", str(port)], stderr=file
        )
    try:
        while not _healthy(port):
            time.sleep(POLL_SECONDS)
        moments["answers 200"] = time.time()
        moments["forwarded"], moments["first byte"] = _ask(port)
    finally:
        process.terminate()
        process.wait()
    listening = json.loads(log.read_text().splitlines()[0])
    moments |= {"started": listening["started"], "listens": listening["time"]}
    return ColdStart(moments=moments)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    return False


def _ask(port: int) -> tuple[float, float]:
    """Stream one short answer to its end; when the request was sent and its first byte came."""
    body = {"prompt": "Hello", "max_tokens": 1, "stream": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        sent = time.time()
        answer = connection.getresponse()
        first = time.time()
        if answer.status != 200:
            sys.exit(f"answered {answer.status}: {answer.read().decode(errors='replace')}")
        answer.read()
    return sent, first


def _free_ports() -> int:
    """The first of as many free ports in a row as there are services."""
    for first in range(18080, 60000, SERVICES):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + SERVICES):
                sock = stack.enter_context(socket.socket())
                sock.bind(("127.0.0.1", port))
            return first
    sys.exit(f"no {SERVICES} free ports in a row")


if __name__ == "__main__":
    sys.exit(main())
