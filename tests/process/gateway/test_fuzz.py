"""Bytes that nobody meant, from clients and from engines: no hang, no error without its JSON, and
above all no answer that reaches the wrong request."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.process.gateway import rig, stubs, wire
from tests.process.gateway.fuzzing import BOUNDED, LIMITS, damaged

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = "/v1/chat/completions"
PLAIN = wire.post(CHAT, {"messages": ["hello"]})
CHUNKED = (
    f"POST {CHAT} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    '8\r\n{"a":"b"\r\n1\r\n}\r\n0\r\n\r\n'
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + (
    b'{"ok":true}'
)
STREAM = stubs.STREAM_HEAD + b"".join(
    b"%x\r\n%b\r\n" % (len(chunk), chunk)
    for chunk in (stubs.CHUNK_1, stubs.CHUNK_2, stubs.DONE, b"")
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path_factory.mktemp("fuzz"), *LIMITS) as gateway:
        yield gateway
        gateway.tell()
        await gateway.ready(0)
        await gateway.settled()
        gateway.no_faults()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(gateway: rig.Gateway) -> AsyncIterator[stubs.Engine]:
    async with stubs.Engine(_mirror) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        yield engine


async def _mirror(to: stubs.Wire, received: stubs.Received) -> None:
    await to.answer(200, received.body)


async def _answers_its_own(gateway: rig.Gateway, marker: str) -> None:
    body = json.dumps({"marker": marker}).encode()
    answer = await gateway.ask(wire.post(CHAT, body))
    assert (answer.status, answer.body) == (200, body)


@BOUNDED
@given(data=st.one_of(damaged(PLAIN), damaged(CHUNKED), damaged(PLAIN + CHUNKED)))
async def test_whatever_a_client_sends_it_gets_http_back_and_nobody_else_is_hurt(
    gateway: rig.Gateway, engine: stubs.Engine, data: bytes
) -> None:
    async with gateway.client() as client:
        client.send(data)
        # A request that lost its end is waited for; only a short while here.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            while True:
                answer = await client.response(within=0.3)
                if answer.status >= 400:
                    answer.error()
    await _answers_its_own(gateway, data[:20].hex())


@BOUNDED
@given(
    data=st.one_of(damaged(ANSWER), damaged(STREAM)),
    cut=st.integers(0, 200),
    closes=st.sampled_from([True, True, True, False]),
)
async def test_whatever_an_engine_sends_the_client_gets_it_or_an_error_and_no_other_does(
    gateway: rig.Gateway, engine: stubs.Engine, data: bytes, cut: int, closes: bool
) -> None:
    """In two pieces; an engine that does not close may be asked again on the same connection."""

    async def misbehave(to: stubs.Wire, received: stubs.Received) -> None:
        if b"marker" in received.body:
            await _mirror(to, received)
            return
        await to.write(data[:cut])
        await asyncio.sleep(0)
        await to.write(data[cut:])
        if closes:
            await asyncio.sleep(0.01)
            to.close()

    engine.script = misbehave
    async with gateway.client() as client:
        client.send(wire.post(CHAT, {"stream": True}))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            answer = await client.response(within=10)
            if answer.status in (502, 504):
                answer.error()
    await _answers_its_own(gateway, data[:20].hex())
