"""What an engine answers goes through as it is: each byte, each coding, however long it takes."""

import asyncio
import gzip
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FLAGS = rig.SHORT_LIMITS

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})
# Legal, all of it, and none of it for a gateway to set right.
ODD_EVENTS = {
    "comments": b": PROCESSING\n\n:\n\ndata: {}\n\n: done\n\n",
    "no space": b'data:{"a":1}\n\ndata:[DONE]\n\n',
    "crlf": b"data: {}\r\n\r\ndata: [DONE]\r\n\r\n",
    "more fields": b"event: x\nid: 1\nretry: 3\ndata: {}\ndata: {}\n\n",
    "no choices": b'data: {"choices":[]}\n\n',
}


@pytest.mark.parametrize("events", ODD_EVENTS.values(), ids=ODD_EVENTS)
@pytest.mark.parametrize("model", ["warm", "cold"])
async def test_events_are_passed_on_as_the_engine_wrote_them(
    gateway: rig.Gateway, engine: stubs.Engine, events: bytes, model: str
) -> None:
    async def stream(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        for start in range(0, len(events), 7):
            await to.chunk(events[start : start + 7])
        await to.chunk(b"")

    engine.script = stream
    if model == "cold":
        gateway.tell()
        await gateway.ready(0)
    async with gateway.client() as client:
        client.send(CHAT)
        if model == "cold":
            await gateway.until(waiting=1)
            await asyncio.sleep(0.5)
            gateway.tell(rig.endpoint(engine.port))
        answer = await client.response()
    heartbeats, began, rest = answer.body.rpartition(b": keep-alive\n\n")
    assert (answer.complete, rest) == (True, events)
    assert bool(began) == (model == "cold")
    assert heartbeats.replace(b": keep-alive\n\n", b"") == b""


async def test_a_warm_stream_is_not_for_proxies_to_buffer(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    engine.script = stubs.stream
    answer = await gateway.ask(CHAT)
    assert answer.header("x-accel-buffering") == "no"
    assert answer.header("cache-control") == "no-cache"


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("body", [gzip.compress(b'{"error":{}}'), b""], ids=["full", "empty"])
async def test_a_coding_is_left_on_whatever_the_answer(
    gateway: rig.Gateway, engine: stubs.Engine, status: int, body: bytes
) -> None:
    async def packed(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(status, body, b"content-encoding: gzip\r\n")

    engine.script = packed
    asked = wire.post("/v1/embeddings", {}, headers={"accept-encoding": "gzip"})
    answer = await gateway.ask(asked)
    assert (answer.status, answer.body) == (status, body)
    assert answer.header("content-encoding") == "gzip"
    assert answer.header("content-length") == str(len(body))


async def test_a_stream_that_moves_outlasts_every_limit(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """The fixture's limits are 2 s to the first byte and 2 s between bytes."""

    async def slowly(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        for _number in range(6):
            await asyncio.sleep(0.8)
            await to.chunk(stubs.CHUNK_1)
        await to.chunk(b"")

    engine.script = slowly
    answer = await gateway.ask(CHAT)
    assert (answer.complete, answer.body) == (True, stubs.CHUNK_1 * 6)


async def test_as_many_requests_fly_as_the_queue_takes(tmp_path: Path) -> None:
    """A pool of connections with a limit of its own would hold the rest back unseen."""
    everybody = asyncio.Event()

    async def together(to: stubs.Wire, received: stubs.Received) -> None:
        if len(engine.received) == 150:
            everybody.set()
        await everybody.wait()
        await stubs.plain(to, received)

    async with (
        rig.Gateway(tmp_path, "--max-queue", "150") as gateway,
        stubs.Engine(together) as engine,
    ):
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        answers = await asyncio.gather(*(gateway.ask(PLAIN) for _ in range(150)))
        assert {answer.status for answer in answers} == {200}
        await gateway.settled()


async def test_an_engines_500_after_the_200_is_counted_and_logged(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """To the client's HTTP it was a success; to whoever runs the model it was none."""

    async def break_down(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(500, b'{"error":{"message":"it broke"}}')

    engine.script = break_down
    counter = ("noctaya_requests_total", '{outcome="upstream_error",status="200"}')
    before = await gateway.metric(*counter)
    gateway.tell()
    await gateway.ready(0)
    async with gateway.client() as client:
        client.send(CHAT)
        await client.head()
        gateway.tell(rig.endpoint(engine.port))
        body, complete = await client.rest()
    assert complete and b'"message":"it broke"' in body
    line = await gateway.last_request()
    assert (line["outcome"], line["status"]) == ("upstream_error", 200)
    assert await gateway.metric(*counter) == before + 1
