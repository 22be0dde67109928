"""What idle, held and refused clients cost the gateway: ``python -m bench.holds``.

Nothing here is compared with a peer: the figures are sizes, and shares of one core.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.gateway import free_port, until_it_answers

HELD, OPEN, REJECTED_PER_SECOND, REJECTED_SECONDS = 2000, 10_000, 500, 20
QUEUE = 2000
# Per held stream, and shares of one core while they beat every 10 s.
HELD_KIB, HELD_CORE = 20.0, 0.01
IDLE_MIB, IDLE_CORE = 60.0, 0.001
REJECTED_P95_MS = 10.0
START_RATIO = 1.3

_STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}' % (b"x" * 1900)


def _request(body: bytes) -> bytes:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


class _Gateway:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        replicas = folder / "replicas.json"
        replicas.write_text('{"items":[]}')
        command = [
            *(sys.executable, "-m", "gateway", "--namespace", "bench", "--service", "bench"),
            *("--listen", f"127.0.0.1:{self.port}"),
            *("--scaler-listen", f"127.0.0.1:{free_port()}"),
            *("--replicas-from", f"file:{replicas}", "--max-queue", str(QUEUE)),
            *("--activation-timeout-seconds", "3600", "--min-replicas", "1"),
        ]
        began = time.monotonic()
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)
        until_it_answers(f"http://127.0.0.1:{self.port}/healthz")
        self.start_seconds = time.monotonic() - began

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def core_share(self, seconds: float) -> float:
        """Of one core, over the next ``seconds``."""
        before = self._cpu()
        time.sleep(seconds)
        return (self._cpu() - before) / seconds

    def _cpu(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def main() -> int:
    wanted = OPEN + HELD + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, wanted), hard), hard))
    with tempfile.TemporaryDirectory() as folder:
        gateway = _Gateway(Path(folder))
        try:
            missed = _idle(gateway) + asyncio.run(_held(gateway))
        finally:
            gateway.end()
        missed += _start(Path(folder))
    print("missed: " + "; ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


def _idle(gateway: _Gateway) -> list[str]:
    time.sleep(2)
    mib = gateway.resident_kib() / 1024
    share = gateway.core_share(20)
    print(f"idle: {mib:.1f} MiB resident, {share:.3%} of a core")
    return _over("idle MiB", mib, IDLE_MIB) + _over("idle share of a core", share, IDLE_CORE)


def _start(folder: Path) -> list[str]:
    """Beside processes that only import what a gateway is made of, in turns."""
    imports = "import aiohttp.web, grpc.aio, httptools, uvloop, prometheus_client.core"
    ratios, seconds = [], []
    for _ in range(7):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", imports], check=True)
        bare = time.monotonic() - began
        gateway = _Gateway(folder)
        gateway.end()
        ratios.append(gateway.start_seconds / bare)
        seconds.append(gateway.start_seconds)
    ratio = statistics.median(ratios)
    print(f"start: {statistics.median(seconds):.2f} s, {ratio:.2f}x of its imports alone")
    return _over("start, of its imports", ratio, START_RATIO)


async def _held(gateway: _Gateway) -> list[str]:
    """Beside a single held stream, for which the file with the replicas is looked at 50 times a
    second just as for many; in a cluster the gateway watches instead."""
    held = [await _open(gateway, _request(_STREAM))]
    await asyncio.sleep(2)
    alone = await asyncio.to_thread(gateway.core_share, 15)
    before = gateway.resident_kib()
    held += [await _open(gateway, _request(_STREAM)) for _ in range(HELD - 1)]
    await asyncio.sleep(12)
    kib = (gateway.resident_kib() - before) / HELD
    share = await asyncio.to_thread(gateway.core_share, 20) - alone
    print(f"{HELD} held streams: {kib:.1f} KiB each, {share:.2%} of a core", end=" ")
    print(f"above the {alone:.2%} that one takes, which is the file's polling")
    missed = _over("KiB per held stream", kib, HELD_KIB)
    missed += _over("share of a core for held streams", share, HELD_CORE)
    missed += await _rejected(gateway)
    for _, writer in held:
        writer.close()
    return missed


async def _rejected(gateway: _Gateway) -> list[str]:
    """The queue is full with held streams; others keep connections open and are refused."""
    idle = [await _open(gateway, b"") for _ in range(OPEN)]
    for connection in idle:
        # What a connection keeps, it keeps from its first request on.
        await _refused(connection)
    before = gateway.resident_kib()
    latencies = []
    began = time.monotonic()
    for turn in range(REJECTED_SECONDS * REJECTED_PER_SECOND):
        latencies.append(await _refused(idle[turn % OPEN]))
        due = began + turn / REJECTED_PER_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    rate = len(latencies) / (time.monotonic() - began)
    grown = (gateway.resident_kib() - before) / 1024
    p95 = statistics.quantiles(latencies, n=20)[-1] * 1e3
    print(f"{OPEN} connections, {rate:.0f} refused/s: p95 {p95:.1f} ms, memory {grown:+.1f} MiB")
    for _, writer in idle:
        writer.close()
    return _over("ms to refuse, p95", p95, REJECTED_P95_MS) + _over("MiB grown", grown, 5.0)


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


async def _open(
    gateway: _Gateway, data: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=4096)
    writer.write(data)
    return reader, writer


def _over(what: str, value: float, limit: float) -> list[str]:
    return [f"{what}: {value:.3g}, wanted at most {limit:g}"] if value > limit else []


if __name__ == "__main__":
    sys.exit(main())
