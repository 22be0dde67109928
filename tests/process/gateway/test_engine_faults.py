"""What the client gets when the engine misbehaves: before its answer and in it."""

import asyncio

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FLAGS = rig.SHORT_LIMITS

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def reset_before_head(to: stubs.Wire, _: stubs.Received) -> None:
    to.reset()


async def close_before_head(to: stubs.Wire, _: stubs.Received) -> None:
    to.close()


async def reset_in_head(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await asyncio.sleep(0.05)
    to.reset()


async def not_http(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def two_framings(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    )


async def two_codings(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n")


async def switches_protocols(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")


async def endless_head(to: stubs.Wire, received: stubs.Received) -> None:
    await to.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(700):
        await to.write(b"x-filler: " + b"x" * 1000 + b"\r\n")


@pytest.mark.parametrize(
    "script",
    [
        reset_before_head,
        close_before_head,
        reset_in_head,
        not_http,
        two_framings,
        two_codings,
        switches_protocols,
        endless_head,
    ],
)
@pytest.mark.parametrize("request_bytes", [CHAT, PLAIN], ids=["stream", "plain"])
async def test_an_engine_that_breaks_off_before_its_answer_is_a_502(
    gateway: rig.Gateway, engine: stubs.Engine, script: stubs.Script, request_bytes: bytes
) -> None:
    engine.script = script
    answer = await gateway.ask(request_bytes)
    assert answer.status == 502
    assert answer.error()["code"] == "upstream_error"
    assert len(engine.received) == 1, "a request that was sent is not sent again"
    assert (await gateway.last_request())["outcome"] == "upstream_error"
    await gateway.settled()


async def test_an_engine_that_accepts_and_hangs_is_a_504_and_does_not_stall_others(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def hang_on_chat(to: stubs.Wire, received: stubs.Received) -> None:
        if received.target.startswith("/v1/chat"):
            await to.left()
        else:
            await stubs.plain(to, received)

    engine.script = hang_on_chat
    hung = asyncio.create_task(gateway.ask(PLAIN))
    await gateway.until(inFlight=1)
    assert (await gateway.ask(wire.post("/v1/completions", {}))).status == 200
    answer = await hung
    assert answer.status == 504
    assert answer.error()["code"] == "backend_timeout"
    await gateway.settled()
    assert engine.connections <= 1, "the hung one was closed, the good one may be pooled"


async def dies_after_a_whole_event(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(stubs.STREAM_HEAD)
    await to.chunk(stubs.CHUNK_1)
    await asyncio.sleep(0.05)
    to.reset()


async def ends_without_its_last_chunk(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(stubs.STREAM_HEAD)
    await to.chunk(stubs.CHUNK_1)
    await asyncio.sleep(0.05)
    to.close()


async def breaks_its_framing(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(stubs.STREAM_HEAD)
    await to.chunk(stubs.CHUNK_1)
    await asyncio.sleep(0.05)
    await to.write(b"zz\r\n")


async def falls_silent(to: stubs.Wire, _: stubs.Received) -> None:
    await to.write(stubs.STREAM_HEAD)
    await to.chunk(stubs.CHUNK_1)
    await to.left()


MID_STREAM = [
    pytest.param(dies_after_a_whole_event, "upstream_error", id="reset"),
    pytest.param(ends_without_its_last_chunk, "upstream_error", id="eof"),
    pytest.param(breaks_its_framing, "upstream_error", id="framing"),
    pytest.param(falls_silent, "backend_timeout", id="silence"),
]


@pytest.mark.parametrize(("script", "code"), MID_STREAM)
async def test_a_stream_that_dies_between_events_ends_with_an_error_event(
    gateway: rig.Gateway, engine: stubs.Engine, script: stubs.Script, code: str
) -> None:
    engine.script = script
    answer = await gateway.ask(CHAT)
    assert (answer.status, answer.complete) == (200, True)
    assert answer.body.startswith(stubs.CHUNK_1)
    event, done, end = answer.body.removeprefix(stubs.CHUNK_1).split(b"\n\n")
    assert event.startswith(b'data: {"error":{"message":')
    assert f'"code":"{code}"'.encode() in event
    assert (done, end) == (b"data: [DONE]", b"")
    await gateway.settled()


async def test_a_stream_that_dies_before_its_first_event_ends_with_an_error_event(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def only_a_head(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await asyncio.sleep(0.05)
        to.reset()

    engine.script = only_a_head
    answer = await gateway.ask(CHAT)
    assert answer.complete and answer.body.startswith(b'data: {"error":')
    await gateway.settled()


async def test_a_stream_that_dies_within_an_event_is_reset(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """Nothing could be appended that a parser would not join to the torn event."""

    async def half_an_event(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1 + stubs.CHUNK_2[:20])
        await asyncio.sleep(0.05)
        to.reset()

    engine.script = half_an_event
    answer = await gateway.ask(CHAT)
    assert not answer.complete
    # The reset that says so may overtake what came before it.
    assert (stubs.CHUNK_1 + stubs.CHUNK_2[:20]).startswith(answer.body)
    await gateway.settled()


async def test_a_plain_answer_that_is_cut_short_is_not_made_whole(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def half_a_body(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" + b"x" * 50)
        await asyncio.sleep(0.05)
        to.reset()

    engine.script = half_a_body
    answer = await gateway.ask(PLAIN)
    assert not answer.complete
    # The reset that says so may overtake what came before it.
    assert answer.body in (b"", b"x" * 50)
    await gateway.settled()


@pytest.mark.parametrize("head", [b"content-type: application/json\r\n", stubs.STREAM_TYPE])
async def test_a_client_without_framing_is_told_by_a_reset(
    gateway: rig.Gateway, engine: stubs.Engine, head: bytes
) -> None:
    """For HTTP/1.0, nginx's way of asking, an ordinary close is a proper end."""

    async def breaks_off(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.1 200 OK\r\n" + head + b"transfer-encoding: chunked\r\n\r\n")
        await to.chunk(b'data: {"choices":[{"delta')
        await asyncio.sleep(0.05)
        to.close()

    engine.script = breaks_off
    answer = await gateway.ask(CHAT.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (answer.complete, answer.body) == (False, b'data: {"choices":[{"delta')
    await gateway.settled()


async def test_a_stream_that_ends_with_its_connection_within_an_event_is_reset(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def torn(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.1 200 OK\r\n" + stubs.STREAM_TYPE + b"\r\n" + stubs.CHUNK_1[:20])
        await asyncio.sleep(0.05)
        to.close()

    engine.script = torn
    answer = await gateway.ask(CHAT)
    assert (answer.complete, answer.body) == (False, stubs.CHUNK_1[:20])
    await gateway.settled()


@pytest.mark.parametrize("begun", [False, True], ids=["before its answer", "within its stream"])
async def test_an_engine_that_closes_its_half_only_is_let_go_of(
    gateway: rig.Gateway, engine: stubs.Engine, begun: bool
) -> None:
    """It would read on for ever; nothing more can come from it."""
    let_go = asyncio.Event()

    async def half_close(to: stubs.Wire, _: stubs.Received) -> None:
        if begun:
            await to.write(stubs.STREAM_HEAD)
            await to.chunk(stubs.CHUNK_1)
        to.writer.write_eof()
        await to.left()
        let_go.set()

    engine.script = half_close
    answer = await gateway.ask(CHAT)
    if begun:
        assert answer.complete and b'"code":"upstream_error"' in answer.body
    else:
        assert (answer.status, answer.error()["code"]) == (502, "upstream_error")
    await asyncio.wait_for(let_go.wait(), 5)
