"""How fast demand reaches KEDA: ``python -m bench.demand``.

One client asks a model that sleeps; a reader of the scaler's stream, as KEDA has one, notes when
``true`` arrives. In turns with that, the same reader asks the scaler a question that it answers
from memory: that is what gRPC alone takes between the same two processes.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

from bench import report
from bench.processes import free_port, until_it_answers
from bench.split import quantiles
from gateway.proto import externalscaler_pb2 as pb
from gateway.proto import externalscaler_pb2_grpc as pb_grpc

# Demand of a client that left ends with it; the lease it took after so long.
LEASE_SECONDS = 0.1
_REF = pb.ScaledObjectRef(namespace="bench", name="bench")
_BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}'
_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def main() -> int:
    parser = report.flags("demand", __doc__)
    parser.add_argument("--count", type=int, default=300, help="default: %(default)s")
    flags = parser.parse_args()
    port, scaler = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        replicas = Path(folder) / "replicas.json"
        replicas.write_text('{"items":[]}')
        command = [
            *(sys.executable, "-m", "gateway", "--namespace", "bench", "--service", "bench"),
            *("--listen", f"127.0.0.1:{port}", "--scaler-listen", f"127.0.0.1:{scaler}"),
            *("--replicas-from", f"file:{replicas}"),
            *("--activation-timeout-seconds", f"{LEASE_SECONDS}"),
        ]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            until_it_answers(f"http://127.0.0.1:{port}/healthz")
            pushed, asked = asyncio.run(_measure(port, scaler, flags.count))
        finally:
            process.kill()
            process.wait()
    return report.publish(_section(pushed, asked), write=flags.write)


async def _measure(port: int, scaler: int, count: int) -> tuple[list[float], list[float]]:
    """Seconds from the request to ``true``, and of a call that is answered from memory."""
    pushed, asked = [], []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{scaler}") as channel:
        keda = pb_grpc.ExternalScalerStub(channel)  # type: ignore[no-untyped-call]
        stream = keda.StreamIsActive(_REF)
        assert not (await stream.read()).result
        for _ in range(count):
            pushed.append(await _until_told(port, stream))
            await asyncio.sleep(3 * LEASE_SECONDS)
            assert not (await keda.IsActive(_REF)).result
            began = time.monotonic()
            await keda.IsActive(_REF)
            asked.append(time.monotonic() - began)
    return pushed, asked


async def _until_told(port: int, stream: Any) -> float:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(_REQUEST)
    assert (await stream.read()).result
    took = time.monotonic() - began
    writer.close()
    return took


def _section(pushed: list[float], asked: list[float]) -> report.Section:
    own, bare = quantiles(pushed), quantiles(asked)
    ratio = statistics.median(p / a for p, a in zip(pushed, asked, strict=True))
    return report.Section(
        name="demand",
        title="From the first request to KEDA's stream",
        how=(
            f"{len(pushed)} first requests of a sleeping model, each followed by a bare call of "
            "the same scaler, which is what gRPC alone takes between the two processes."
        ),
        table=[
            ["", "ms, p50", "ms, p95", "of a bare call"],
            ["request sent -> `true` read", f"{own.p50:.2f}", f"{own.p95:.2f}", f"{ratio:.2f}x"],
            ["bare call", f"{bare.p50:.2f}", f"{bare.p95:.2f}", "1.00x"],
        ],
        targets=[
            report.Target(
                what="first demand to `true` on the stream, p95",
                measured=own.p95,
                at_most=5,
                unit=" ms",
            )
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
