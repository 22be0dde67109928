"""Two gateways and the scaler that speaks for both, each a process."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.process.gateway import keda, rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path, "--member") as gateway:
        yield gateway


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    """One that answers KEDA as well, as on the way between one gateway and several."""
    async with rig.Gateway(tmp_path) as gateway:
        yield gateway


@pytest.fixture
async def scaler(tmp_path: Path, one: rig.Gateway, two: rig.Gateway) -> AsyncIterator[rig.Gateway]:
    both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
    async with rig.Gateway(tmp_path, "--aggregate", told=both) as scaler:
        yield scaler


async def known(stub: Any) -> None:
    """Until it answers polls; the first call makes it ask its members."""

    async def answers() -> bool:
        try:
            await stub.IsActive(keda.OURS)
        except grpc.aio.AioRpcError as e:
            assert e.code() is grpc.StatusCode.UNAVAILABLE
            return False
        return True

    await rig.eventually(answers)


async def until(stub: Any, active: bool, demand: float, *, within: float = 20) -> None:
    async def reached() -> bool:
        return await keda.demand(stub) == (active, demand)

    await rig.eventually(reached, within=within)


async def test_demand_is_the_sum_and_is_pushed_from_any_member(
    scaler: rig.Gateway, one: rig.Gateway, two: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub:
        assert len((await stub.GetMetricSpec(keda.OURS)).metricSpecs) == 1
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        assert await pushes.until(1) == [False]
        async with one.client() as a, two.client() as b, two.client() as c:
            began = time.monotonic()
            a.send(CHAT)
            await pushes.until(2)
            assert pushes.messages[1][0] - began < 1
            b.send(CHAT)
            c.send(CHAT)
            await until(stub, True, 3)
            assert (await scaler.queue())["waiting"] == 3
        await until(stub, True, 0)
        await pushes.cancel()


async def test_a_member_that_was_killed_is_forgotten_and_its_successor_counts(
    scaler: rig.Gateway, one: rig.Gateway, two: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub, two.client() as client:
        await known(stub)
        client.send(CHAT)
        await until(stub, True, 1)
        one.process.kill()
        scaler.tell(rig.endpoint(two.port, ready=True))
        await asyncio.sleep(1)
        assert await keda.demand(stub) == (True, 1)


async def test_a_stopping_gateway_stays_in_the_sum_until_its_last_request(
    scaler: rig.Gateway, one: rig.Gateway, two: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub, stubs.Engine() as engine:
        await known(stub)
        held = asyncio.create_task(one.ask(CHAT, within=60))
        await until(stub, True, 1)
        stopping = asyncio.create_task(one.stop())
        scaler.tell(
            rig.endpoint(one.port, ready=False, terminating=True),
            rig.endpoint(two.port, ready=True),
        )
        await asyncio.sleep(3)
        assert await keda.demand(stub) == (True, 1)
        one.tell(rig.endpoint(engine.port))
        assert (await held).status == 200
        assert await stopping == 0
        await until(stub, True, 0, within=5)


async def test_a_replaced_scaler_has_the_whole_state_as_soon_as_it_has_connected(
    scaler: rig.Gateway, one: rig.Gateway, two: rig.Gateway, tmp_path: Path
) -> None:
    async with one.client() as a, two.client() as b:
        a.send(CHAT)
        b.send(CHAT)
        await one.until(waiting=1)
        await two.until(waiting=1)
        both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        async with rig.Gateway(tmp_path, "--aggregate", told=both) as successor:
            scaler.process.kill()
            async with keda.calls(successor.scaler_port) as stub:
                pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
                assert await pushes.until(1, within=3) == [True]
                assert await keda.demand(stub) == (True, 2)
                await pushes.cancel()


async def test_a_scaler_that_was_killed_leaves_nothing_at_its_members(
    scaler: rig.Gateway, one: rig.Gateway, two: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub:
        await known(stub)
        assert await one.metric("noctaya_client_connections") == 2
    scaler.process.kill()
    await one.settled()
    await two.settled()


async def test_a_member_that_cannot_be_reached_delays_the_first_answer_by_two_seconds(
    tmp_path: Path, one: rig.Gateway
) -> None:
    """The others' demand must not wait for it for longer."""
    told = (rig.endpoint(one.port, ready=True), rig.endpoint(rig.free_port()))
    async with (
        rig.Gateway(tmp_path, "--aggregate", told=told) as scaler,
        keda.calls(scaler.scaler_port) as stub,
        one.client() as client,
    ):
        client.send(CHAT)
        await one.until(waiting=1)
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        began = time.monotonic()
        assert await pushes.until(1) == [True]
        assert 1.5 < time.monotonic() - began < 5
        await pushes.cancel()


async def test_a_young_scaler_keeps_a_backend_that_its_members_see(
    scaler: rig.Gateway, one: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub, stubs.Engine() as engine:
        await known(stub)
        await until(stub, False, 0)
        one.tell(rig.endpoint(engine.port, ready=True))
        await until(stub, True, 0)


async def test_a_watched_gateway_knows_that_it_can_be_activated(
    scaler: rig.Gateway, one: rig.Gateway
) -> None:
    async with keda.calls(scaler.scaler_port) as stub, stubs.Engine() as engine:
        await known(stub)
        ask = asyncio.create_task(one.ask(CHAT))
        await until(stub, True, 1)
        one.tell(rig.endpoint(engine.port))
        await ask
        phases = (await one.last_request())["phases"]
        assert phases["accepted"] <= phases["signalled"] < phases["released"]


async def test_it_serves_no_requests_and_says_what_it_is(scaler: rig.Gateway) -> None:
    answer = await scaler.ask(CHAT)
    assert answer.status == 404
    assert "aggregate scaler" in answer.error()["message"]
    assert (await scaler.ask(wire.get("/healthz"))).status == 200
    assert await scaler.metric("noctaya_members") == 0, "nobody asked yet"
    assert await scaler.stop() == 0


async def test_the_demand_stream_gives_the_state_and_then_each_change(one: rig.Gateway) -> None:
    async with one.client() as watcher, one.client() as client:
        watcher.send(wire.get("/noctaya/queue?watch=true"))
        status, _ = await watcher.head()
        assert status == 200
        first = json.loads(await watcher.chunk())
        assert (first["demand"], first["active"]) == (0, False)
        client.send(CHAT)
        second = json.loads(await watcher.chunk())
        assert (second["demand"], second["waiting"], second["active"]) == (1, 1, True)
        client.writer.close()
        third = json.loads(await watcher.chunk())
        assert (third["demand"], third["active"]) == (0, True)
        began = time.monotonic()
        assert json.loads(await watcher.chunk())["demand"] == 0
        assert time.monotonic() - began < 4, "silence means a lost connection"
        watcher.writer.close()
