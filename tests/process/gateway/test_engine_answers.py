"""Answers of an engine that are whole, but not the plain 200 that was asked for."""

import asyncio
import json

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        pytest.param(
            400,
            b'{"error":{"message":"max_tokens is too large","type":"BadRequestError",'
            b'"param":"max_tokens","code":400}}',
            {
                "message": "max_tokens is too large",
                "type": "BadRequestError",
                "param": "max_tokens",
                "code": "400",
            },
            id="object",
        ),
        pytest.param(
            401,
            b'{"error":"Unauthorized"}',
            {"message": "Unauthorized", "type": "server_error", "param": None, "code": None},
            id="text",
        ),
        pytest.param(
            500,
            b"<html>",
            {
                "message": "the engine answered 500 instead of a stream",
                "type": "server_error",
                "param": None,
                "code": None,
            },
            id="not-json",
        ),
    ],
)
async def test_an_engines_error_after_the_200_is_wrapped_into_one_event(
    gateway: rig.Gateway, status: int, body: bytes, expected: dict[str, str | None]
) -> None:
    async def refuse(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(status, body)

    async with gateway.client() as client, stubs.Engine(refuse) as engine:
        client.send(CHAT)
        await client.head()
        await client.chunk()
        gateway.tell(rig.endpoint(engine.port))
        text, complete = await client.rest()
        assert complete
        event = text.replace(b": keep-alive\n\n", b"")
        assert event == error_event(expected)
        client.writer.close()
        await gateway.settled()


def error_event(detail: dict[str, str | None]) -> bytes:
    data = json.dumps({"error": detail}, separators=(",", ":"))
    return f"data: {data}\n\ndata: [DONE]\n\n".encode()


async def test_engine_errors_pass_unchanged_while_warm(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def refuse(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(422, b'{"error":"odd"}', b"x-own: 1\r\n")

    engine.script = refuse
    answer = await gateway.ask(CHAT)
    assert (answer.status, answer.body) == (422, b'{"error":"odd"}')
    assert answer.header("x-own") == "1"
    assert (await gateway.last_request())["outcome"] == "served"


async def test_interim_responses_are_not_the_answer(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def processing_first(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\na: b\r\n\r\n")
        await to.answer()

    engine.script = processing_first
    answer = await gateway.ask(PLAIN)
    assert (answer.status, answer.header("a")) == (200, None)


async def test_an_answer_that_ends_with_its_connection_is_passed_on_whole(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def until_eof(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nall of it")
        to.close()

    engine.script = until_eof
    answer = await gateway.ask(PLAIN)
    assert (answer.complete, answer.body) == (True, b"all of it")
    await gateway.settled()


async def test_an_engine_that_answers_before_it_read_the_request_is_heard(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """It refuses a large body by its head, and reads on."""

    async def too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        while await reader.read(1 << 20):
            pass
        writer.close()

    async with await asyncio.start_server(too_large, "127.0.0.1", 0) as server:
        gateway.tell()
        await gateway.ready(0)
        gateway.tell(rig.endpoint(server.sockets[0].getsockname()[1], ready=True))
        await gateway.ready()
        big = wire.post("/v1/completions", {"prompt": "x" * 8_000_000})
        assert (await gateway.ask(big)).status == 413
        gateway.tell()
        await gateway.ready(0)
