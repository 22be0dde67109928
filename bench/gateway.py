"""What the gateway costs per request and per chunk: ``python -m bench.gateway``.

Every proxy runs at once, pinned to one core; backend and load share another. Short slices go round
in shuffled order, and each figure is the median over rounds of a ratio within one round, since the
machine changes faster than a run lasts. The yardstick is a bare reverse proxy in Go with one
thread of its own. CPU is the process's own, read from the scheduler.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
YARDSTICK = "Go ReverseProxy"
OURS = "noctaya-gateway"

# Of the yardstick's CPU: per request at 32 connections, and per chunk of 100 streams at 50/s.
REQUEST_TARGET, CHUNK_TARGET = 1.25, 0.95
ADDED_MS_TARGET = 0.1


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
    unit: str


LOADS = (
    Load("requests, 32 connections", ("json", "-conns", "32"), "request"),
    Load("chunks, 100 streams x 50/s", ("sse", "-conns", "100", "-every", "20ms"), "chunk"),
    Load("chunks, 1 stream x 50/s", ("sse", "-conns", "1", "-every", "20ms"), "chunk"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a slice")
    flags = parser.parse_args()
    if shutil.which("go") is None:
        print("bench.gateway: go is needed to build the yardstick: put it on PATH", file=sys.stderr)
        return 2
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bench = _Bench(Path(folder), stack, proxies=cores[-1], rest=cores[0])
        bench.start()
        results = bench.run(flags.rounds, flags.seconds)
    return _report(results)


Results = dict[str, dict[str, list[Slice]]]


class _Bench:
    def __init__(
        self, folder: Path, stack: contextlib.ExitStack, *, proxies: int, rest: int
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._proxy_core = proxies
        self._rest_core = rest
        self._tool = str(folder / "yardstick")
        self._pids: dict[str, int] = {}
        self._urls: dict[str, str] = {}

    def start(self) -> None:
        subprocess.run(["go", "build", "-o", self._tool, "."], cwd=HERE / "yardstick", check=True)
        port = free_port()
        backend = f"http://127.0.0.1:{port}"
        self._spawn([self._tool, "backend", "-listen", f"127.0.0.1:{port}"], self._rest_core)
        until_it_answers(f"{backend}/health")
        self._urls["direct"] = backend
        self._proxy(YARDSTICK, lambda p: self._go(p, backend))
        self._proxy(OURS, lambda p: self._gateway(p, port))
        aioproxy = [sys.executable, "-m", "bench.aioproxy"]
        self._proxy("aiohttp + ClientSession", lambda p: [*aioproxy, str(p), backend])
        if nginx := shutil.which("nginx") or shutil.which("/usr/sbin/nginx"):
            self._proxy("nginx", lambda p: self._nginx(nginx, p, port))
        else:
            print("nginx is not installed and is left out")

    def run(self, rounds: int, seconds: float) -> Results:
        results: Results = {load.name: {name: [] for name in self._urls} for load in LOADS}
        for turn in range(rounds + 1):
            for load in LOADS:
                names = list(self._urls)
                random.shuffle(names)
                for name in names:
                    measured = self._slice(name, load, seconds)
                    # The first round warms connections and code up.
                    if turn > 0:
                        results[load.name][name].append(measured)
        return results

    def _slice(self, name: str, load: Load, seconds: float) -> Slice:
        before = self._cpu(name)
        command = [self._tool, *load.command, "-url", self._urls[name], "-seconds", f"{seconds}"]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, preexec_fn=self._on_rest_core
        )
        said = json.loads(done.stdout)
        spent = self._cpu(name) - before
        return Slice(
            cpu=spent / max(said["count"], 1) * 1e6,
            per_second=said["count"] / said["seconds"],
            p50=said["p50_ms"],
            errors=said["errors"],
        )

    def _on_rest_core(self) -> None:
        os.sched_setaffinity(0, {self._rest_core})

    def _cpu(self, name: str) -> float:
        """Seconds of CPU of the proxy and its children so far."""
        if name not in self._pids:
            return 0.0
        spent = 0
        for pid in _family(self._pids[name]):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    spent += int((task / "schedstat").read_text().split()[0])
        return spent / 1e9

    def _proxy(self, name: str, command: Callable[[int], list[str]]) -> None:
        port = free_port()
        self._pids[name] = self._spawn(command(port), self._proxy_core)
        self._urls[name] = f"http://127.0.0.1:{port}"
        until_it_answers(f"{self._urls[name]}/v1/json")

    def _spawn(self, command: list[str], core: int) -> int:
        log = self._stack.enter_context((self._folder / f"log-{len(self._pids)}").open("wb"))
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env=os.environ | {"GOMAXPROCS": "1"},
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process.pid

    def _go(self, port: int, backend: str) -> list[str]:
        return [self._tool, "proxy", "-listen", f"127.0.0.1:{port}", "-url", backend]

    def _gateway(self, port: int, backend: int) -> list[str]:
        """With everything on that a deployment has on: a key, logs, metrics, the scaler."""
        endpoint = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
        slices = {
            "items": [{"ports": [{"name": "http", "port": backend}], "endpoints": [endpoint]}]
        }
        replicas, key = self._folder / "replicas.json", self._folder / "key"
        replicas.write_text(json.dumps(slices))
        key.write_text("sk-bench")
        return [
            *(sys.executable, "-m", "gateway", "--namespace", "bench", "--service", "bench"),
            *("--listen", f"127.0.0.1:{port}", "--scaler-listen", f"127.0.0.1:{free_port()}"),
            *("--replicas-from", f"file:{replicas}", "--readiness", '{"path":"/health"}'),
            *("--max-queue", "4096", "--api-key-file", str(key)),
        ]

    def _nginx(self, nginx: str, port: int, backend: int) -> list[str]:
        config = self._folder / "nginx.conf"
        config.write_text(
            f"""
            daemon off; worker_processes 1; pid {self._folder}/nginx.pid; error_log /dev/null;
            events {{ worker_connections 8192; }}
            http {{
                access_log off;
                client_body_temp_path {self._folder}; proxy_temp_path {self._folder};
                upstream backend {{ server 127.0.0.1:{backend}; keepalive 512; }}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{
                        proxy_pass http://backend; proxy_http_version 1.1; proxy_buffering off;
                        proxy_set_header Connection "";
                    }}
                }}
            }}"""
        )
        return [nginx, "-p", str(self._folder), "-c", str(config)]


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _family(int(child))


def _report(results: Results) -> int:
    missed = []
    for load in LOADS:
        slices = results[load.name]
        print(f"\n{load.name}")
        print(f"  {'':26}{'CPU us':>8}{'vs Go':>8}{'/s':>9}{'added ms':>10}{'errors':>8}")
        for name, own in slices.items():
            yard, direct = slices[YARDSTICK], slices["direct"]
            ratio = statistics.median(a.cpu / b.cpu for a, b in zip(own, yard, strict=True))
            added = statistics.median(a.p50 - b.p50 for a, b in zip(own, direct, strict=True))
            cpu = statistics.median(s.cpu for s in own)
            rate = statistics.median(s.per_second for s in own)
            errors = sum(s.errors for s in own)
            print(f"  {name:26}{cpu:8.1f}{ratio:8.2f}{rate:9.0f}{added:10.3f}{errors:8}")
            if name == OURS:
                missed += _missed(load, ratio, added, errors)
    print("\n" + ("missed: " + "; ".join(missed) if missed else "all targets met"))
    return 1 if missed else 0


def _missed(load: Load, ratio: float, added: float, errors: int) -> list[str]:
    found = []
    if load.unit == "request" and ratio > REQUEST_TARGET:
        found.append(f"{ratio:.2f}x per request, wanted {REQUEST_TARGET}x")
    if load is LOADS[1] and ratio > CHUNK_TARGET:
        found.append(f"{ratio:.2f}x per chunk, wanted {CHUNK_TARGET}x")
    if load is LOADS[1] and added > ADDED_MS_TARGET:
        found.append(f"{added:.2f} ms added per chunk, wanted {ADDED_MS_TARGET} ms")
    if errors:
        found.append(f"{errors} errors under {load.name}")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until_it_answers(url: str) -> None:
    """Until something answers there, whatever it says."""
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
