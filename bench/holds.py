"""What idle, held and refused clients cost the gateway: ``python -m bench.holds``.

Beside it, one after the other in each step, runs a holder that aiohttp makes in thirty lines; and,
for what an idle gateway weighs and how long it takes to start, a process that only imports the
same libraries.
"""

import asyncio
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.aioholds import QUEUE
from bench.processes import core_share, free_port, resident_kib, until_it_answers

IMPORTS = "import aiohttp.web, grpc.aio, httptools, uvloop, prometheus_client.core"
OURS, PEER = "noctaya-gateway", "aiohttp"

_STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}' % (b"x" * 1900)


def main() -> int:
    parser = report.flags("holds", __doc__)
    parser.add_argument("--held", type=int, default=QUEUE, help="streams (default: %(default)s)")
    parser.add_argument("--open", type=int, default=10_000, help="connections that are refused")
    parser.add_argument("--rejected", type=int, default=500, help="refusals per second")
    parser.add_argument("--seconds", type=float, default=20, help="length of each measurement")
    flags = parser.parse_args()
    load = Load(
        held=min(flags.held, QUEUE),
        opened=flags.open,
        rejected_per_second=flags.rejected,
        seconds=flags.seconds,
    )
    _allow_files(load.opened + QUEUE + 1000)
    with tempfile.TemporaryDirectory() as folder:
        figures = {}
        idle = _idle(Path(folder), load)
        start = _start(Path(folder))
        for name, started in ((OURS, _gateway(Path(folder))), (PEER, _peer())):
            with started as subject:
                figures[name] = asyncio.run(_clients(subject, load))
    return report.publish(_section(idle, start, figures, load), write=flags.write)


@dataclass(frozen=True, kw_only=True)
class Load:
    """``seconds``: the length of each measurement."""

    held: int
    opened: int
    rejected_per_second: int
    seconds: float

    @property
    def settling(self) -> float:
        """Seconds between the start of a gateway and the measure of its idleness."""
        return self.seconds / 2

    @property
    def idle(self) -> float:
        """Seconds of idleness that are measured."""
        return self.seconds * 3


@dataclass(frozen=True)
class Subject:
    pid: int
    port: int


@contextlib.contextmanager
def _started(command: Sequence[str], log: int, port: int) -> Iterator[Subject]:
    process = subprocess.Popen(command, stderr=log)
    try:
        until_it_answers(f"http://127.0.0.1:{port}/healthz")
        yield Subject(process.pid, port)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _gateway(folder: Path) -> Iterator[Subject]:
    port = free_port()
    replicas = folder / "replicas.json"
    replicas.write_text('{"items":[]}')
    command = [
        *(sys.executable, "-m", "gateway", "--namespace", "bench", "--service", "bench"),
        *("--listen", f"127.0.0.1:{port}", "--scaler-listen", f"127.0.0.1:{free_port()}"),
        *("--replicas-from", f"file:{replicas}", "--max-queue", str(QUEUE)),
        *("--activation-timeout-seconds", "3600", "--min-replicas", "1"),
    ]
    with (folder / "log").open("wb") as log, _started(command, log.fileno(), port) as subject:
        yield subject


def _peer() -> contextlib.AbstractContextManager[Subject]:
    port = free_port()
    return _started([sys.executable, "-m", "bench.aioholds", str(port)], subprocess.DEVNULL, port)


@dataclass(frozen=True, kw_only=True)
class Idle:
    mib: float
    share: float
    imports_mib: float


def _idle(folder: Path, load: Load) -> Idle:
    """After a start, gRPC's threads keep busy for some seconds, and later now and then."""
    waits = [sys.executable, "-c", f"{IMPORTS}; print(flush=True); import sys; sys.stdin.read()"]
    with (
        _gateway(folder) as gateway,
        subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as imports,
    ):
        assert imports.stdout is not None
        imports.stdout.readline()
        time.sleep(load.settling)
        return Idle(
            share=core_share(gateway.pid, load.idle),
            mib=resident_kib(gateway.pid) / 1024,
            imports_mib=resident_kib(imports.pid) / 1024,
        )


@dataclass(frozen=True, kw_only=True)
class Start:
    seconds: float
    ratio: float


def _start(folder: Path) -> Start:
    """In turns with processes that only import what a gateway is made of."""
    ratios, seconds = [], []
    for _ in range(9):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", IMPORTS], check=True)
        bare = time.monotonic() - began
        began = time.monotonic()
        with _gateway(folder):
            seconds.append(time.monotonic() - began)
        ratios.append(seconds[-1] / bare)
    return Start(seconds=statistics.median(seconds), ratio=statistics.median(ratios))


@dataclass(frozen=True, kw_only=True)
class Clients:
    held_kib: float
    held_share: float
    refused_p95: float
    """Milliseconds until the whole 429 was there."""
    refused_share: float
    """Of a core, while refusing."""
    grown_mib: float


async def _clients(subject: Subject, load: Load) -> Clients:
    """Held streams are measured beside a single one, for which the gateway looks at its file of
    replicas 50 times a second just as for many; in a cluster it watches instead."""
    streams = [await _open(subject, _request(_STREAM))]
    await asyncio.sleep(2)
    alone = await asyncio.to_thread(core_share, subject.pid, load.seconds)
    before = resident_kib(subject.pid)
    streams += [await _open(subject, _request(_STREAM)) for _ in range(load.held - 1)]
    await asyncio.sleep(12)
    kib = (resident_kib(subject.pid) - before) / load.held
    share = await asyncio.to_thread(core_share, subject.pid, load.seconds) - alone
    others = [await _open(subject, _request(_STREAM)) for _ in range(QUEUE - load.held)]
    refused = await _refusals(subject, load)
    for _, writer in streams + others:
        writer.close()
    return Clients(held_kib=kib, held_share=share, **refused)


async def _refusals(subject: Subject, load: Load) -> dict[str, float]:
    """The queue is full with held streams; others keep connections open and are refused."""
    idle = [await _open(subject, b"") for _ in range(load.opened)]
    for connection in idle:
        # What a connection keeps, it keeps from its first request on.
        await _refused(connection)
    before = resident_kib(subject.pid)
    share = asyncio.create_task(asyncio.to_thread(core_share, subject.pid, load.seconds))
    latencies = []
    began = time.monotonic()
    for turn in range(int(load.seconds * load.rejected_per_second)):
        latencies.append(await _refused(idle[turn % load.opened]))
        due = began + turn / load.rejected_per_second
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    grown = (resident_kib(subject.pid) - before) / 1024
    for _, writer in idle:
        writer.close()
    return {
        "refused_p95": statistics.quantiles(latencies, n=20)[-1] * 1e3,
        "refused_share": await share,
        "grown_mib": grown,
    }


async def _refused(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> float:
    """Seconds until the whole 429 was there."""
    reader, writer = connection
    began = time.monotonic()
    writer.write(_request(b"{}"))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 429 " in head, head
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return time.monotonic() - began


async def _open(subject: Subject, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", subject.port, limit=4096)
    writer.write(data)
    return reader, writer


def _request(body: bytes) -> bytes:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


def _allow_files(count: int) -> None:
    """Programs that are started from here inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count), hard), hard))


def _section(idle: Idle, start: Start, figures: dict[str, Clients], load: Load) -> report.Section:
    head = ["", "KiB / held stream", "% of a core, held", "ms to refuse, p95", "% of a core, 429s"]
    table = [head]
    for name, found in figures.items():
        cells = (found.held_kib, found.held_share * 100, found.refused_p95)
        row = [name, *(f"{cell:.2f}" for cell in (*cells, found.refused_share * 100))]
        table.append(row)
    ours = figures[OURS]
    return report.Section(
        name="holds",
        title="Idle, held and refused",
        how=(
            f"{load.held} streams held through a cold start, with heartbeats every 10 s; then "
            f"{load.opened} more connections, on which {load.rejected_per_second} requests a "
            "second are refused with 429. Beside it the same from aiohttp in thirty lines, without "
            "anything else that a gateway has. An idle gateway and its start are compared with a "
            f"process that only imports the same libraries ({idle.imports_mib:.0f} MiB); a start "
            f"takes {start.seconds:.2f} s. Idleness is measured for {load.idle:.0f} s, from "
            f"{load.settling:.0f} s after the start on."
        ),
        table=table,
        targets=[
            report.Target(
                what="an idle gateway, resident", measured=idle.mib, at_most=60, unit=" MiB"
            ),
            report.Target(
                what="an idle gateway, of a core", measured=idle.share * 100, at_most=0.1, unit=" %"
            ),
            report.Target(
                what="start, of its imports alone", measured=start.ratio, at_most=1.3, unit="x"
            ),
            report.Target(what="a held stream", measured=ours.held_kib, at_most=20, unit=" KiB"),
            report.Target(
                what=f"{load.held} held streams, of a core",
                measured=ours.held_share * 100,
                at_most=1,
                unit=" %",
            ),
            report.Target(what="429, p95", measured=ours.refused_p95, at_most=10, unit=" ms"),
            report.Target(
                what="memory grown by refusals", measured=ours.grown_mib, at_most=5, unit=" MiB"
            ),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
