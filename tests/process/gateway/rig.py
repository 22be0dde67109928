"""Starts the gateway as a process, tells it its replicas, and looks at what it holds."""

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.process.gateway import wire

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and network namespaces need root")
# Loaded machines start Python slowly.
START_LIMIT = 60.0
# Where a test waits for an engine's silence to end something. What it sends otherwise is at once.
SHORT_LIMITS = ("--first-byte-timeout-seconds", "2", "--idle-timeout-seconds", "2")
_GAUGE = re.compile(r"^(noctaya_\w+)(\{[^}]*\})? (\S+)$", re.MULTILINE)
_REQUESTS = (
    "noctaya_demand",
    "noctaya_waiting",
    "noctaya_in_flight",
    "noctaya_admitted",
    "noctaya_held_bytes",
)
_HELD = (*_REQUESTS, "noctaya_client_connections", "noctaya_tasks", "sockets")
# What an allocator may keep of what was used and given back.
_SLACK_KIB = 12 * 1024


def free_port() -> int:
    """Below those that the kernel gives to clients, one of which could have it a moment later."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def endpoint(port: int, *, ready: bool = False, terminating: bool = False, pod: str = "") -> Any:
    return (port, {"ready": ready, "terminating": terminating}, pod or f"pod-{port}")


def slices(*endpoints: Any) -> dict[str, Any]:
    """An EndpointSliceList; every endpoint has its own port here, so its own slice."""
    items = [
        {
            "metadata": {"name": f"m-backend-{port}"},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": ["127.0.0.1"], "conditions": conditions, "targetRef": {"uid": pod}}
            ],
        }
        for port, conditions, pod in endpoints
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSliceList",
        "metadata": {"resourceVersion": "1"},
        "items": items,
    }


class Gateway:
    """``async with Gateway(tmp_path, "--flag", "value") as gateway``.

    ``told``: its replicas from the start on. ``readable``: whether it will come to know its
    replicas, without which it is not ready.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        readable: bool = True,
        environment: dict[str, str] | None = None,
        stderr: Path | None = None,
        told: Sequence[Any] = (),
    ) -> None:
        self.port, self.scaler_port = free_port(), free_port()
        self.folder = folder
        self._flags = flags
        self._told = told
        self._own = "--aggregate" not in flags
        self._probe = "/readyz" if readable else "/healthz"
        self._environment = environment or {}
        self._log = stderr or folder / f"gateway-{self.port}.log"
        self._replicas = folder / f"replicas-{self.port}.json"
        self._baseline: dict[str, float] = {}
        self._resident_kib = 0

    async def __aenter__(self) -> Self:
        self.tell(*self._told)
        arguments = [
            *("-m", "gateway", "--namespace", "ns", "--service", "m"),
            *("--listen", f"127.0.0.1:{self.port}"),
            *("--scaler-listen", f"127.0.0.1:{self.scaler_port}"),
            *("--replicas-from", f"file:{self._replicas}"),
            *("--readiness", '{"path":"/health","scheme":"HTTP","headers":[]}'),
            *("--heartbeat-interval-seconds", "0.2", "--accept-after-term-seconds", "0"),
            *self._flags,
        ]
        with self._log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stderr=log, env=os.environ | self._environment
            )
        await eventually(self._answers, within=START_LIMIT)
        self._baseline = await self._held()
        self._resident_kib = self.resident_kib()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # What a scaler of several counts is its members' demand, which may go on.
            if error is None and self.process.returncode is None and self._own:
                await self.settled(_REQUESTS)
        finally:
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
            if error is not None and self._log.is_file():
                print(self._log.read_text()[-8000:])

    def tell(self, *endpoints: Any) -> None:
        """Replace the list of replicas."""
        self.tell_bytes(json.dumps(slices(*endpoints)).encode())

    def tell_bytes(self, content: bytes) -> None:
        fresh = self._replicas.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.rename(self._replicas)

    async def ask(self, data: bytes, *, within: float = 20) -> wire.Response:
        return await wire.once(self.port, data, within=within)

    def client(self) -> wire.Client:
        return wire.Client(self.port)

    async def queue(self) -> dict[str, Any]:
        body: dict[str, Any] = (await self.ask(wire.get("/noctaya/queue"))).json()
        return body

    async def metric(self, name: str, labels: str = "") -> float:
        return (await self._metrics()).get(name + labels, 0.0)

    async def until(self, **expected: Any) -> dict[str, Any]:
        """Until ``/noctaya/queue`` says so."""
        state: dict[str, Any] = {}

        async def reached() -> bool:
            state.update(await self.queue())
            return all(state[key] == value for key, value in expected.items())

        await eventually(reached, why=lambda: f"{expected} was never reached: {state}")
        return state

    async def ready(self, count: int = 1) -> None:
        async def reached() -> bool:
            ready: int = (await self.queue())["replicas"]["ready"]
            return ready == count

        await eventually(reached)

    async def settled(self, what: Sequence[str] = _HELD) -> None:
        """Slots, demand, bytes, tasks and sockets are back where they were at the start. Tasks and
        sockets may also be those of a cold start that goes on, or of clients that keep their
        connections, so not every test ends with them; with the rest every one does."""
        now: dict[str, float] = {}

        async def back() -> bool:
            now.update(await self._held())
            return all(now[name] <= self._baseline[name] for name in what if name in now)

        await eventually(
            back, within=15, why=lambda: f"left over: {now}, at first {self._baseline}"
        )

    async def at_rest(self) -> None:
        """Settled, and also what outlives a request is gone: the lease, the activation, memory.
        And no faults meanwhile."""
        self.tell()
        await self.until(active=False, activation=None)
        await self.settled()
        assert self.resident_kib() - self._resident_kib < _SLACK_KIB
        self.no_faults()

    def no_faults(self) -> None:
        """Nothing happened that the gateway itself would call a fault."""
        faults = self.log("request failed") + self.log("connection failed")
        faults += [line for line in self.log("library") if line["level"] == "error"]
        assert not faults

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def open_files(self) -> int:
        return len(list(self._files()))

    def sockets(self) -> int:
        """Without KEDA's, which the gRPC of the test's own process closes at its leisure."""
        opened = {name[8:-1] for name in self._files() if name.startswith("socket:[")}
        for table in ("tcp", "tcp6"):
            lines = Path(f"/proc/{self.process.pid}/net/{table}").read_text().splitlines()[1:]
            rows = [line.split() for line in lines]
            opened -= {row[9] for row in rows if row[1].endswith(f":{self.scaler_port:04X}")}
        return len(opened)

    def _files(self) -> Iterator[str]:
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(file)

    def cpu_seconds(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    async def stop(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 90)

    def log(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def log_text(self) -> str:
        return self._log.read_text()

    async def last_request(self) -> dict[str, Any]:
        """The newest outcome line; written when its request is over, perhaps after its answer."""

        async def written() -> bool:
            return bool(self.log("request"))

        await eventually(written)
        await asyncio.sleep(0.05)
        return self.log("request")[-1]

    async def _answers(self) -> bool:
        assert self.process.returncode is None, self._log.read_text()
        try:
            return (await self.ask(wire.get(self._probe))).status == 200
        except (OSError, asyncio.IncompleteReadError):
            return False

    async def _held(self) -> dict[str, float]:
        metrics = await self._metrics()
        # Idle connections to engines are kept on purpose, and not for long.
        idle = metrics.get("noctaya_idle_upstream_connections", 0)
        metrics["sockets"] = self.sockets() - idle
        return {name: metrics[name] for name in _HELD if name in metrics}

    async def _metrics(self) -> dict[str, float]:
        text = (await self.ask(wire.get("/metrics"))).body.decode()
        return {name + labels: float(value) for name, labels, value in _GAUGE.findall(text)}


async def eventually(
    reached: Callable[[], Any], *, within: float = 20, why: Callable[[], str] = lambda: ""
) -> None:
    """Poll until ``reached()`` is true."""
    end = time.monotonic() + within
    while not await reached():
        assert time.monotonic() < end, why() or "it never came to that"
        await asyncio.sleep(0.02)
