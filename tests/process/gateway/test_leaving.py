"""Clients that leave, or do not keep up: nothing of them stays, here or at the engine."""

import asyncio
import contextlib
import socket

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FLAGS = rig.SHORT_LIMITS

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
        resident = gateway.resident_kib()
        await asyncio.sleep(0.15)
        assert sent == held < 24_000_000, "kernel buffers, and not much more"
        body, complete = await client.rest()
        assert complete and len(body) == 700 * 60_008
        assert gateway.resident_kib() - resident < 2048
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


HEAD, _, BODY = CHAT.partition(b"\r\n\r\n")


@pytest.mark.parametrize(
    "said",
    [b"", HEAD[:20], HEAD + b"\r\n\r\n", HEAD + b"\r\n\r\n" + BODY[:5]],
    ids=["nothing", "half a head", "a head", "half a body"],
)
@pytest.mark.parametrize("how", ["fin", "reset"])
async def test_a_client_that_leaves_before_its_request_is_whole_leaves_nothing(
    gateway: rig.Gateway, engine: stubs.Engine, said: bytes, how: str
) -> None:
    async with gateway.client() as client:
        client.send(said)
        await asyncio.sleep(0.05)
        if how == "reset":
            client.reset()
    await gateway.settled()
    assert not engine.received


@pytest.mark.parametrize("request_bytes", [CHAT, PLAIN], ids=["stream", "plain"])
async def test_a_client_that_leaves_while_its_replica_is_connected_to_leaves_nothing(
    gateway: rig.Gateway, request_bytes: bytes
) -> None:
    """A listener whose queue is full answers no SYN: the connection stays half open."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        address = full.getsockname()
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        gateway.tell(rig.endpoint(address[1], ready=True))
        await gateway.ready()
        async with gateway.client() as client:
            client.send(request_bytes)
            await gateway.until(inFlight=1)
        await gateway.until(inFlight=0)
        assert (await gateway.last_request())["outcome"] == "abandoned"
        gateway.tell()
        await gateway.ready(0)
    await gateway.settled()


async def test_clients_that_leave_exactly_at_a_heartbeat_leave_nothing(
    gateway: rig.Gateway,
) -> None:
    """Some before it is written, some while it is, some with it unread."""

    async def leave(turn: int) -> None:
        async with gateway.client() as client:
            client.send(CHAT)
            await client.head()
            await client.chunk()
            # The next one comes 0.2 s after the first; 40 clients leave around that moment.
            await asyncio.sleep(0.18 + turn * 0.001)
            client.reset()

    await asyncio.gather(*(leave(turn) for turn in range(40)))
    await gateway.until(waiting=0, demand=0)
    lines = gateway.log("request")[-40:]
    assert {line["outcome"] for line in lines} == {"abandoned"}
    assert not gateway.log("library")


@pytest.mark.parametrize("after", range(6))
async def test_a_client_may_leave_after_any_number_of_events(
    gateway: rig.Gateway, engine: stubs.Engine, after: int
) -> None:
    async def keep_on(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        for _n in range(5):
            await to.chunk(stubs.CHUNK_1)
            await asyncio.sleep(0.01)
        await to.chunk(b"")

    engine.script = keep_on
    async with gateway.client() as client:
        client.send(CHAT)
        await client.head()
        for _ in range(after):
            assert await client.chunk()
        client.reset()
    await gateway.settled()
    await gateway.last_request()
    assert gateway.log("request")[-1]["outcome"] in ("abandoned", "served")
