"""Peers whose packets are dropped: nothing says that they are gone.

What the kernel notices takes half a minute, so these scenarios run side by side, each with
gateways and peers of its own, and every test looks at the end of one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.process.gateway import keda, network, rig, stubs, wire

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    rig.needs_root,
]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})

Scenario = Callable[[Path], Awaitable[None]]
SCENARIOS: list[Scenario] = []


def side_by_side(scenario: Scenario) -> Scenario:
    SCENARIOS.append(scenario)
    return scenario


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[Scenario, asyncio.Task[None]]]:
    with network.own():
        tasks = {
            scenario: asyncio.ensure_future(scenario(tmp_path_factory.mktemp("network")))
            for scenario in SCENARIOS
        }
        yield tasks
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


@side_by_side
async def new_connections(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, stubs.Engine() as one, stubs.Engine() as two:
        gateway.tell(rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        await gateway.ready(2)
        with network.dropped(two.port):
            answers = await asyncio.gather(*(gateway.ask(PLAIN) for _ in range(6)))
            assert {answer.status for answer in answers} == {200}
            assert (await gateway.queue())["replicas"]["ready"] == 1
        await gateway.ready(2)
        await gateway.settled()


async def test_a_replica_that_takes_no_connection_is_left_out_and_returns(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[new_connections]


@side_by_side
async def kept_connection(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, stubs.Engine() as one, stubs.Engine() as two:
        gateway.tell(rig.endpoint(one.port, ready=True))
        await gateway.ready()
        assert (await gateway.ask(PLAIN)).status == 200
        with network.dropped(one.port):
            ask = asyncio.create_task(gateway.ask(PLAIN, within=90))
            await gateway.until(inFlight=1)
            gateway.tell(rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
            await gateway.ready(2)
            assert (await ask).status == 200
        assert len(two.received) == 1
        gateway.tell(rig.endpoint(two.port, ready=True))
        await gateway.settled()


async def test_a_request_on_a_kept_connection_to_nowhere_goes_elsewhere(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[kept_connection]


@side_by_side
async def running_stream(folder: Path) -> None:
    async def begin(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await to.left()

    async with rig.Gateway(folder) as gateway, stubs.Engine(begin) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as client:
            client.send(CHAT)
            await client.head()
            await client.chunk()
            began = time.monotonic()
            with network.dropped(engine.port):
                rest, complete = await client.rest()
        assert complete and b'"code":"upstream_error"' in rest
        assert time.monotonic() - began < 60, "long before the limit on an engine's silence"
        await gateway.settled()


async def test_a_stream_from_a_node_that_died_ends_with_an_error_event(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[running_stream]


@side_by_side
async def waiting_client(folder: Path) -> None:
    # Without a replica at all times it would be told after 30 s that nobody starts one.
    flags = ("--min-replicas", "1", "--activation-timeout-seconds", "40")
    async with rig.Gateway(folder, *flags) as gateway, gateway.client() as client:
        client.send(PLAIN)
        await gateway.until(waiting=1)
        with network.dropped(client.writer.get_extra_info("sockname")[1]):

            async def gone() -> bool:
                demand: int = (await gateway.queue())["demand"]
                return demand == 0

            await rig.eventually(gone, within=60)
            assert (await gateway.last_request())["outcome"] == "abandoned"
            await gateway.settled()


async def test_a_waiting_client_that_vanished_takes_its_demand_with_it(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[waiting_client]


@side_by_side
async def keda_vanishes(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        await gateway.until(scalerConnected=True)
        with network.dropped(gateway.scaler_port):

            async def noticed() -> bool:
                return not (await gateway.queue())["scalerConnected"]

            await rig.eventually(noticed, within=90)
            await gateway.settled()
        await pushes.cancel()


async def test_a_keda_that_vanished_leaves_no_stream_behind(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[keda_vanishes]


@side_by_side
async def member_vanishes(folder: Path) -> None:
    async with rig.Gateway(folder) as one, rig.Gateway(folder) as two:
        both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        async with (
            rig.Gateway(folder, "--aggregate", told=both) as scaler,
            keda.calls(scaler.scaler_port) as stub,
            one.client() as a,
            two.client() as b,
        ):
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            a.send(CHAT)
            b.send(CHAT)
            await one.until(waiting=1)
            await two.until(waiting=1)
            await demand_is(stub, 2)
            with network.dropped(one.port):
                began = time.monotonic()
                while time.monotonic() - began < 7:
                    assert await keda.demand(stub) == (True, 2), "its last word still counts"
                    await asyncio.sleep(0.5)
                await demand_is(stub, 1)
            await pushes.cancel()


async def demand_is(stub: Any, demand: float) -> None:
    async def reached() -> bool:
        return await keda.demand(stub) == (True, demand)

    await rig.eventually(reached)


async def test_a_gateway_that_vanished_costs_the_sum_its_own_demand_and_no_other(
    running: dict[Scenario, asyncio.Task[None]],
) -> None:
    await running[member_vanishes]
