"""What the machine runs out of, and that the gateway outlasts it."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_without_file_descriptors_it_serves_on_does_not_spin_and_comes_back(
    tmp_path: Path,
) -> None:
    go_on = asyncio.Event()

    async def pause(to: stubs.Wire, received: stubs.Received) -> None:
        if b"stream" not in received.body:
            await stubs.plain(to, received)
            return
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(stubs.DONE)
        await to.chunk(b"")

    async def answers() -> bool:
        try:
            return (await gateway.ask(PLAIN, within=2)).status == 200
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(pause) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as running:
            running.send(wire.post("/v1/chat/completions", {"stream": True}))
            await running.head()
            assert await running.chunk() == stubs.CHUNK_1
            limit = gateway.open_files() + 10
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
            crowd = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(100)]
            before = gateway.cpu_seconds()
            await asyncio.sleep(2)
            assert gateway.cpu_seconds() - before < 0.2, "it waits, it does not try over and over"
            go_on.set()
            assert await running.rest() == (stubs.DONE, True)
        for _, writer in crowd:
            writer.close()
        await rig.eventually(answers)
        await gateway.settled()


async def test_clients_that_give_up_fast_leave_no_memory_behind(tmp_path: Path) -> None:
    """Many clients with a short patience on a model that never starts."""

    async def give_up() -> None:
        async with gateway.client() as client:
            client.send(wire.post("/v1/chat/completions", {"pad": "x" * 2000}))
            await asyncio.sleep(0.05)

    async with rig.Gateway(tmp_path, "--activation-timeout-seconds", "60") as gateway:
        for _ in range(10):
            await asyncio.gather(*(give_up() for _ in range(50)))
        before = gateway.resident_kib()
        for _ in range(30):
            await asyncio.gather(*(give_up() for _ in range(50)))
        await gateway.until(waiting=0, demand=0)
        assert gateway.resident_kib() - before < 2048
