"""Connections to engines: kept, used again, and never a way from one request into another."""

import asyncio

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_a_pooled_connection_that_the_engine_closed_is_replaced_unseen(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """The engine closes an idle connection in the moment that the next request is written to it."""

    async def close_on_the_second(to: stubs.Wire, received: stubs.Received) -> None:
        if len(engine.received) == 2:
            to.close()
        else:
            await stubs.plain(to, received)

    engine.script = close_on_the_second
    assert (await gateway.ask(PLAIN)).status == 200
    assert (await gateway.ask(PLAIN)).status == 200
    assert len(engine.received) == 3
    assert await gateway.metric('noctaya_upstream_errors_total{kind="stale"}') >= 1


async def test_an_answer_that_has_begun_is_never_asked_for_again(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def break_on_the_second(to: stubs.Wire, received: stubs.Received) -> None:
        if len(engine.received) == 2:
            await to.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
            await asyncio.sleep(0.05)
            to.reset()
        else:
            await stubs.plain(to, received)

    engine.script = break_on_the_second
    assert (await gateway.ask(PLAIN)).status == 200
    assert (await gateway.ask(PLAIN)).status == 502
    assert len(engine.received) == 2


async def test_idle_connections_are_closed_before_an_engine_would(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    assert (await gateway.ask(PLAIN)).status == 200
    assert engine.connections == 1
    await asyncio.sleep(4.8)
    assert engine.connections == 0


async def test_bytes_behind_a_whole_answer_never_reach_the_next_client(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    async def answer_twice(to: stubs.Wire, received: stubs.Received) -> None:
        await stubs.plain(to, received)
        await to.answer(200, b'{"whose":"nobody\'s"}')

    engine.script = answer_twice
    for _ in range(20):
        assert (await gateway.ask(PLAIN)).json() == {"ok": True}
