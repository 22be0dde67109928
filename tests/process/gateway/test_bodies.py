"""Bodies of requests: how large, in what framing, of what type, and what they cost."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = "/v1/chat/completions"
MIB = 1024 * 1024


async def test_forms_and_audio_pass_unparsed_in_both_directions(gateway: rig.Gateway) -> None:
    form = b'--x\r\ncontent-disposition: form-data; name="file"\r\n\r\n\x00\xff\r\n--x--\r\n'

    async def speak(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: 4\r\n\r\n\x00\x01RI"
        )

    async with stubs.Engine(speak) as engine:
        kind = {"content-type": "multipart/form-data; boundary=x"}
        data = wire.post("/v1/audio/transcriptions", form, headers=kind)
        ask = asyncio.create_task(gateway.ask(data))
        await gateway.until(waiting=1)
        gateway.tell(rig.endpoint(engine.port))
        answer = await ask
    assert (answer.header("content-type"), answer.body) == ("audio/wav", b"\x00\x01RI")
    assert engine.received[0].body == form
    assert engine.received[0].header("content-type") == kind["content-type"]


async def test_compressed_bodies_pass_untouched(gateway: rig.Gateway, engine: stubs.Engine) -> None:
    packed = gzip.compress(b'{"model":"m"}')

    async def answer_packed(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(200, packed, b"content-encoding: gzip\r\n")

    engine.script = answer_packed
    headers = {"content-encoding": "gzip", "accept-encoding": "gzip, br"}
    answer = await gateway.ask(wire.post(CHAT, packed, headers=headers))
    assert (answer.body, answer.header("content-encoding")) == (packed, "gzip")
    assert engine.received[0].body == packed
    assert engine.received[0].header("content-encoding") == "gzip"
    assert engine.received[0].header("accept-encoding") == "gzip, br"


async def test_bodies_up_to_64_mib_pass_and_larger_ones_are_413(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    body = b'{"x":"' + b"a" * (64 * MIB - 8) + b'"}'
    assert len(body) == 64 * MIB
    assert (await gateway.ask(wire.post(CHAT, body), within=60)).status == 200
    assert engine.received[0].body == body
    answer = await gateway.ask(wire.post(CHAT, b"", headers={"content-length": str(64 * MIB + 1)}))
    assert answer.status == 413
    answer.error()
    await gateway.settled()


async def test_a_chunked_body_is_limited_too(gateway: rig.Gateway, engine: stubs.Engine) -> None:
    async with gateway.client() as client:
        client.send(
            f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        chunk = b"%x\r\n%b\r\n" % (MIB, b"a" * MIB)
        for _ in range(65):
            client.send(chunk)
            await client.writer.drain()
        answer = await client.response()
        assert answer.status == 413
        answer.error()
        assert answer.header("connection") == "close"
    assert not engine.received


async def test_a_chunked_body_reaches_the_engine_with_a_length(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    body = b'5;ext=1\r\n{"a":\r\n3\r\n"b"\r\n1\r\n}\r\n0\r\nx-trailer: 1\r\n\r\n'
    assert (await gateway.ask(head + body)).status == 200
    assert engine.received[0].body == b'{"a":"b"}'
    assert engine.received[0].header("transfer-encoding") is None
    assert engine.received[0].header("x-trailer") is None


async def test_large_bodies_leave_no_memory_behind(tmp_path: Path) -> None:
    """Where small ones came beside them, their pieces were kept for good, 100 MiB and more."""
    head = f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    piece = b"%x\r\n%b\r\n" % (MIB, b"a" * MIB)

    async def forget(to: stubs.Wire, received: stubs.Received) -> None:
        received.body = b""
        await asyncio.sleep(0.2)
        await to.answer()

    async def large(gateway: rig.Gateway) -> None:
        async with gateway.client() as client:
            for part in (head, *[piece] * 60, b"0\r\n\r\n"):
                client.send(part)
                await client.writer.drain()
            assert (await client.response(within=90)).status == 200

    async def small(gateway: rig.Gateway, pad: int) -> None:
        for turn in range(40):
            body = b"b" * (3000 + 1400 * ((turn * 7 + pad) % 40))
            assert (await gateway.ask(wire.post(CHAT, body), within=90)).status == 200

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(forget) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        before = gateway.resident_kib()
        for _ in range(3):
            larges = (large(gateway) for _ in range(4))
            await asyncio.gather(*larges, *(small(gateway, pad) for pad in range(10)))
        await gateway.settled()
        assert gateway.resident_kib() - before < 48 * 1024


async def test_bodies_of_waiting_requests_are_bounded_in_bytes(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--max-queue", "100") as gateway:
        body = b'{"x":"' + b"a" * (60 * MIB) + b'"}'
        async with gateway.client() as a, gateway.client() as b, gateway.client() as c:
            async with gateway.client() as d:
                for client in (a, b, c, d):
                    client.send(wire.post(CHAT, body))
                await gateway.until(waiting=4)
                answer = await gateway.ask(wire.post(CHAT, body[: 20 * MIB]))
                assert answer.status == 429
                assert answer.error()["code"] == "rate_limit_exceeded"
                assert int(answer.header("retry-after") or 0) >= 1
            await gateway.until(waiting=3)
            async with gateway.client() as again:
                again.send(wire.post(CHAT, {}))
                await gateway.until(waiting=4)


async def test_the_request_above_max_queue_is_429_before_its_body_is_read(tmp_path: Path) -> None:
    async with (
        rig.Gateway(tmp_path, "--max-queue", "3") as gateway,
        gateway.client() as a,
        gateway.client() as b,
        gateway.client() as c,
    ):
        for client in (a, b, c):
            client.send(wire.post(CHAT, {"stream": True}))
        await gateway.until(waiting=3)
        expecting = {"content-length": "100", "expect": "100-continue"}
        answer = await gateway.ask(wire.post(CHAT, b"", headers=expecting))
        assert answer.status == 429
        assert answer.error()["type"] == "requests"
        assert 1 <= int(answer.header("retry-after") or 0) <= 60


async def test_the_client_is_asked_for_its_body_once_it_has_a_place(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async with gateway.client() as client:
        data = wire.post(CHAT, {"a": 1}, headers={"expect": "100-continue"})
        head, _, body = data.partition(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        status, _ = await client.head()
        assert status == 100
        client.send(body)
        assert (await client.response()).status == 200
    assert engine.received[0].header("expect") is None
    assert json.loads(engine.received[0].body) == {"a": 1}


async def test_an_unknown_expectation_is_417(gateway: rig.Gateway, engine: stubs.Engine) -> None:
    answer = await gateway.ask(wire.post(CHAT, headers={"expect": "gold"}))
    assert answer.status == 417
    answer.error()
