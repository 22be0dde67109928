"""Clients that leave, or do not keep up: nothing of them stays, here or at the engine."""

import asyncio

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


@pytest.mark.parametrize("request_bytes", [CHAT, PLAIN], ids=["stream", "plain"])
@pytest.mark.parametrize("how", ["fin", "reset", "half-close"])
async def test_a_client_that_leaves_takes_its_request_from_the_engine(
    gateway: rig.Gateway, engine: stubs.Engine, request_bytes: bytes, how: str
) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def begin_and_wait(to: stubs.Wire, _: stubs.Received) -> None:
        begun.set()
        if request_bytes is CHAT:
            await to.write(stubs.STREAM_HEAD)
            await to.chunk(stubs.CHUNK_1)
        await to.left()
        gone.set()

    engine.script = begin_and_wait
    async with gateway.client() as client:
        client.send(request_bytes)
        await begun.wait()
        if how == "fin":
            client.writer.close()
        elif how == "reset":
            client.reset()
        else:
            client.writer.write_eof()
        # Less than the first-byte limit, which would end it too.
        await asyncio.wait_for(gone.wait(), 1.5)
    await gateway.settled()
    assert (await gateway.last_request())["outcome"] == "abandoned"


async def test_a_slow_reader_holds_the_engine_back_and_costs_no_memory(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    sent = 0

    async def pour(to: stubs.Wire, received: stubs.Received) -> None:
        nonlocal sent
        await to.write(stubs.STREAM_HEAD)
        event = b"data: " + b"x" * 60_000 + b"\n\n"
        for _ in range(700):
            await to.chunk(event)
            sent += len(event)
        await to.chunk(b"")

    engine.script = pour
    async with gateway.client() as client:
        client.send(CHAT)
        await client.head()
        await asyncio.sleep(0.4)
        held = sent
        await asyncio.sleep(0.15)
        assert sent == held < 24_000_000, "kernel buffers, and not much more"
        body, complete = await client.rest()
        assert complete and len(body) == 700 * 60_008
        client.writer.close()
    await gateway.settled()


async def test_a_reader_that_stopped_for_good_is_let_go(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def pour(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        while True:
            await to.chunk(b"data: " + b"x" * 60_000 + b"\n\n")

    engine.script = pour
    async with gateway.client() as client:
        client.send(CHAT)
        await client.head()
        await gateway.until(inFlight=1)
        await gateway.until(inFlight=0)
    await gateway.settled()


@pytest.mark.parametrize("path", ["/metrics", "/nowhere"])
async def test_answers_to_a_client_that_only_asks_are_not_piled_up(
    gateway: rig.Gateway, path: str
) -> None:
    """Requests in a row, whose answers are many times larger and never read."""
    async with gateway.client() as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(wire.get(path) * 50_000)
        resident, spent = gateway.resident_kib(), 0.0

        async def waits() -> bool:
            nonlocal spent
            await asyncio.sleep(0.5)
            before, spent = spent, gateway.cpu_seconds()
            assert gateway.resident_kib() - resident < 4 * 1024
            return spent - before < 0.05

        await rig.eventually(waits)
        assert (await gateway.ask(wire.get("/healthz"))).status == 200
    await gateway.settled()
