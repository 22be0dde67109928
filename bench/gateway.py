"""What the gateway costs per request and per chunk: ``python -m bench.gateway``.

Every proxy runs at once, pinned to one core; backend and load share another. Short slices go round
in shuffled order, and each figure is the median over rounds of a ratio within one round, since the
machine changes faster than a run lasts. A round in which other processes were busy is run again,
within limits, and the quietest ones count. The yardstick is a bare reverse proxy in Go with one
thread of its own. CPU is the process's own, read from the scheduler.
"""

import contextlib
import dataclasses
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from bench import report
from bench.contenders import OURS, YARDSTICK, Contender, contenders
from bench.processes import cpu_seconds, free_port, resident_kib, until_it_answers

HERE = Path(__file__).parent
DIRECT = "direct"


@dataclasses.dataclass(frozen=True)
class Slice:
    """One proxy under one load for a second or two. ``cpu``: microseconds per request or chunk."""

    cpu: float
    per_second: float
    p50: float
    errors: int


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    command: tuple[str, ...]


REQUESTS = Load("request, 32 connections", ("plain", "-conns", "32"))
CHUNKS = Load("chunk, 100 streams x 50/s", ("streams", "-conns", "100", "-every", "20ms"))
LOADS = (REQUESTS, CHUNKS)

# What strangers may take of the machine, in cores, before a round is run once more.
QUIET = 0.1


@dataclasses.dataclass(frozen=True)
class Round:
    """``others``: what strangers took meanwhile, in cores. A contender may have sat it out."""

    others: float
    slices: Mapping[tuple[Load, str], Slice]


def main() -> int:
    parser = report.flags("gateway", __doc__)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a slice")
    flags = parser.parse_args()
    if shutil.which("go") is None:
        print("bench.gateway: go is needed to build the yardstick: put it on PATH", file=sys.stderr)
        return 2
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bench = _Bench(Path(folder), stack, proxies=cores[-1], rest=cores[0])
        bench.start()
        rounds = bench.run(flags.rounds, flags.seconds)
        section = _section(rounds, bench, f"{flags.rounds} rounds of {flags.seconds:g} s")
    return report.publish(section, write=flags.write)


class _Busy:
    """What the machine did since, in cores: by our own doing and by others'."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._all, self._own = self._seconds()

    def others(self) -> float:
        everything, own = self._seconds()
        spent = (everything - self._all) - (own - self._own)
        return max(spent, 0.0) / (time.monotonic() - self._began)

    def _seconds(self) -> tuple[float, float]:
        user, nice, system, _idle, _iowait, irq, softirq, *_ = (
            int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        )
        ticks = user + nice + system + irq + softirq
        ended = os.times().children_user + os.times().children_system
        return ticks / os.sysconf("SC_CLK_TCK"), cpu_seconds(os.getpid()) + ended


class _Bench:
    def __init__(
        self, folder: Path, stack: contextlib.ExitStack, *, proxies: int, rest: int
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._proxy_core = proxies
        self._rest_core = rest
        self._tool = str(folder / "yardstick")
        self._urls: dict[str, str] = {}
        self._pids: dict[str, int] = {}
        self.contenders: dict[str, Contender] = {}

    def start(self) -> None:
        subprocess.run(["go", "build", "-o", self._tool, "."], cwd=HERE / "yardstick", check=True)
        port = free_port()
        backend = f"http://127.0.0.1:{port}"
        self._spawn([self._tool, "backend", "-listen", f"127.0.0.1:{port}"], self._rest_core, {})
        until_it_answers(f"{backend}/health")
        self._urls[DIRECT] = backend
        for contender in contenders(self._folder, port, self._tool):
            self._proxy(contender)

    def run(self, count: int, seconds: float) -> list[Round]:
        """The quietest ``count`` rounds of at most twice as many."""
        self._round(self._urls, seconds)  # Connections and code warm up.
        rounds: list[Round] = []
        while len(rounds) < 2 * count and sum(r.others < QUIET for r in rounds) < count:
            taking_part = [
                name
                for name in self._urls
                if name == DIRECT or len(rounds) % self.contenders[name].every == 0
            ]
            rounds.append(self._round(taking_part, seconds))
        return sorted(rounds, key=lambda r: r.others)[:count]

    def _round(self, names: Collection[str], seconds: float) -> Round:
        busy = _Busy()
        slices = {}
        for load in LOADS:
            for name in random.sample(list(names), len(names)):
                slices[load, name] = self._slice(name, load, seconds)
        return Round(busy.others(), slices)

    def resident_mib(self, name: str) -> float:
        return resident_kib(self._pids[name]) / 1024

    def _slice(self, name: str, load: Load, seconds: float) -> Slice:
        before = self._cpu(name)
        command = [self._tool, *load.command, "-url", self._urls[name], "-seconds", f"{seconds}"]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, preexec_fn=self._on_rest_core
        )
        said = json.loads(done.stdout)
        self._settle(name)
        return Slice(
            cpu=(self._cpu(name) - before) / max(said["count"], 1) * 1e6,
            per_second=said["count"] / said["seconds"],
            p50=said["p50_ms"],
            errors=said["errors"],
        )

    def _settle(self, name: str) -> None:
        """Until the proxy is done with what it does after its answers, 5 s at most: it is part of
        their price, and the next one's core."""
        end = time.monotonic() + 5
        spent = -1.0
        while (now := self._cpu(name)) - spent > 0.002 and time.monotonic() < end:
            spent = now
            time.sleep(0.05)

    def _on_rest_core(self) -> None:
        os.sched_setaffinity(0, {self._rest_core})

    def _cpu(self, name: str) -> float:
        return cpu_seconds(self._pids[name]) if name in self._pids else 0.0

    def _proxy(self, contender: Contender) -> None:
        port = free_port()
        pid = self._spawn(contender.command(port), self._proxy_core, contender.env)
        self.contenders[contender.name] = contender
        self._pids[contender.name] = pid
        self._urls[contender.name] = f"http://127.0.0.1:{port}"
        until_it_answers(f"{self._urls[contender.name]}/v1/models", within=180)

    def _spawn(self, command: list[str], core: int, env: Mapping[str, str]) -> int:
        log = self._stack.enter_context((self._folder / f"log-{len(self._pids)}").open("wb"))
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env=os.environ | env,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        self._stack.callback(_end, process)
        return process.pid


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asked first: a proxy that is killed leaves its workers behind."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _section(rounds: Sequence[Round], bench: _Bench, how_many: str) -> report.Section:
    head = ["", "version"]
    for load in LOADS:
        head += [f"CPU µs / {load.name}", "vs Go", "added ms"]
    table = [[*head, "MiB"]]
    for contender in bench.contenders.values():
        row = [contender.name, contender.version]
        for load in LOADS:
            cpu = _median(rounds, load, contender.name, lambda own, _: own.cpu)
            row += [f"{cpu:,.1f}", f"{_ratio(rounds, load, contender.name):.2f}x"]
            row.append(f"{_added(rounds, load, contender.name):.2f}")
        table.append([*row, f"{bench.resident_mib(contender.name):.0f}"])
    others = statistics.median(r.others for r in rounds)
    return report.Section(
        name="gateway",
        title="Proxies, per request and per streamed chunk",
        how=(
            f"{how_many}, interleaved; each proxy on one core with backend and load on another. "
            "Ours runs with a key, request logs, metrics and its scaler on; the others only pass "
            f"on. Other processes took {others:.2f} of a core meanwhile. Milliseconds are "
            "medians over direct; at 32 connections, which is a closed loop, they only repeat the "
            "cost."
        ),
        table=table,
        targets=_targets(rounds),
    )


def _targets(rounds: Sequence[Round]) -> list[report.Target]:
    return [
        report.Target(
            what="CPU per request, of a bare Go proxy's",
            measured=_ratio(rounds, REQUESTS, OURS),
            at_most=1.25,
            stretch=1.0,
            unit="x",
        ),
        report.Target(
            what="CPU per streamed chunk, of a bare Go proxy's",
            measured=_ratio(rounds, CHUNKS, OURS),
            at_most=0.95,
            stretch=0.8,
            unit="x",
        ),
        report.Target(
            what="added latency per streamed chunk, p50",
            measured=_added(rounds, CHUNKS, OURS),
            at_most=0.1,
            unit=" ms",
        ),
        report.Target(
            what="requests and streams that failed",
            measured=sum(r.slices[load, OURS].errors for r in rounds for load in LOADS),
            at_most=0,
        ),
    ]


def _ratio(rounds: Sequence[Round], load: Load, name: str) -> float:
    return _median(rounds, load, name, lambda own, r: own.cpu / r.slices[load, YARDSTICK].cpu)


def _added(rounds: Sequence[Round], load: Load, name: str) -> float:
    return _median(rounds, load, name, lambda own, r: own.p50 - r.slices[load, DIRECT].p50)


def _median(
    rounds: Sequence[Round], load: Load, name: str, of: Callable[[Slice, Round], float]
) -> float:
    """Over the rounds that it took part in; NaN where those were none."""
    found = [of(r.slices[load, name], r) for r in rounds if (load, name) in r.slices]
    return statistics.median(found) if found else math.nan


if __name__ == "__main__":
    sys.exit(main())
