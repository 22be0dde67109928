"""What shows only after half a minute or more: peers that are silent, slow, or gone without a word.

The scenarios run side by side, each with gateways and peers of its own, in a network where packets
can be made to disappear; every test looks at the end of one.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.process.gateway import apiserver, keda, network, rig, sidebyside, stubs, wire
from tests.process.gateway.sidebyside import Running, Scenario

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})

side_by_side = sidebyside.SideBySide()


def without_packets(scenario: Scenario) -> Scenario:
    return side_by_side(scenario) if os.geteuid() == 0 else scenario


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    with network.own() if os.geteuid() == 0 else contextlib.nullcontext():
        async with side_by_side.running(tmp_path_factory) as tasks:
            yield tasks


@without_packets
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


@rig.needs_root
async def test_a_replica_that_takes_no_connection_is_left_out_and_returns(running: Running) -> None:
    await running[new_connections]


@without_packets
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


@rig.needs_root
async def test_a_request_on_a_kept_connection_to_nowhere_goes_elsewhere(running: Running) -> None:
    await running[kept_connection]


@without_packets
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


@rig.needs_root
async def test_a_stream_from_a_node_that_died_ends_with_an_error_event(running: Running) -> None:
    await running[running_stream]


@without_packets
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


@rig.needs_root
async def test_a_waiting_client_that_vanished_takes_its_demand_with_it(running: Running) -> None:
    await running[waiting_client]


@without_packets
async def streaming_client(folder: Path) -> None:
    cut = asyncio.Event()

    async def talk(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        try:
            while True:
                await to.chunk(stubs.CHUNK_1)
                await asyncio.sleep(0.2)
        finally:
            cut.set()

    async with (
        rig.Gateway(folder) as gateway,
        stubs.Engine(talk) as engine,
        gateway.client() as client,
    ):
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        client.send(CHAT)
        await client.head()
        await client.chunk()
        await vanishes(client, gateway)
        await asyncio.wait_for(cut.wait(), 20)
        gateway.tell()
        await gateway.settled()


async def vanishes(client: wire.Client, gateway: rig.Gateway) -> None:
    """Long before the kernel gives up, which takes it a quarter of an hour."""
    with network.dropped(client.writer.get_extra_info("sockname")[1]):

        async def gone() -> bool:
            demand: int = (await gateway.queue())["demand"]
            return demand == 0

        await rig.eventually(gone, within=120)
        assert (await gateway.last_request())["outcome"] == "abandoned"
        assert await gateway.metric("noctaya_client_connections") == 1, "that of who asks"


@rig.needs_root
async def test_a_streaming_client_that_vanished_takes_its_request_from_the_engine(
    running: Running,
) -> None:
    await running[streaming_client]


@without_packets
async def held_client(folder: Path) -> None:
    flags = ("--min-replicas", "1", "--activation-timeout-seconds", "300")
    async with rig.Gateway(folder, *flags) as gateway, gateway.client() as client:
        client.send(CHAT)
        await client.head()
        await vanishes(client, gateway)


@rig.needs_root
async def test_a_held_stream_whose_client_vanished_takes_its_demand_with_it(
    running: Running,
) -> None:
    await running[held_client]


@side_by_side
async def pausing_reader(folder: Path) -> None:
    events = [b"data: " + b"x" * 60_000 + b"\n\n"] * 500

    async def pour(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        for chunk in (*events, b""):
            await to.chunk(chunk)

    async with (
        rig.Gateway(folder) as gateway,
        stubs.Engine(pour) as engine,
        gateway.client() as client,
    ):
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        client.send(CHAT)
        await client.head()
        await asyncio.sleep(60)
        rest, complete = await client.rest()
        assert complete
        assert rest == b"".join(events)
        client.writer.close()
        gateway.tell()
        await gateway.settled()


async def test_a_reader_that_pauses_for_a_minute_is_not_taken_for_vanished(
    running: Running,
) -> None:
    """Its kernel answers for it; somebody may be reading the answer page by page."""
    await running[pausing_reader]


@without_packets
async def keda_vanishes(folder: Path) -> None:
    async with (
        rig.Gateway(folder) as gateway,
        network.road_to(gateway.scaler_port, folder) as road,
        keda.calls(road) as stub,
    ):
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        await gateway.until(scalerConnected=True)
        with network.dropped(gateway.scaler_port):

            async def noticed() -> bool:
                return not (await gateway.queue())["scalerConnected"]

            await rig.eventually(noticed, within=90)
            await gateway.settled()
        await pushes.cancel()


@rig.needs_root
async def test_a_keda_that_vanished_leaves_no_stream_behind(running: Running) -> None:
    await running[keda_vanishes]


@without_packets
async def member_vanishes(folder: Path) -> None:
    async with rig.Gateway(folder) as one, rig.Gateway(folder) as two:
        both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        async with (
            rig.Gateway(folder, "--aggregate", told=both) as scaler,
            network.road_to(scaler.scaler_port, folder) as road,
            keda.calls(road) as stub,
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


@rig.needs_root
async def test_a_gateway_that_vanished_costs_the_sum_its_own_demand_and_no_other(
    running: Running,
) -> None:
    await running[member_vanishes]


@side_by_side
async def slow_head(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, gateway.client() as client:
        began = time.monotonic()
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            while not client.reader.at_eof() and time.monotonic() - began < 100:
                client.send(b"x-a: b\r\n")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(client.reader.read(1), 1)
        assert time.monotonic() - began < 90
        await gateway.settled()


async def test_a_head_that_trickles_in_is_cut_off_after_75_seconds(running: Running) -> None:
    """Header by header, so that no single read is late."""
    await running[slow_head]


@side_by_side
async def slow_body(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, gateway.client() as client:
        began = time.monotonic()
        client.send(wire.post("/v1/completions", b"", headers={"content-length": "1000"}))
        answer = asyncio.create_task(client.response(within=90))
        while not answer.done():
            client.send(b"x")
            await asyncio.wait((answer,), timeout=0.5)
        assert 25 < time.monotonic() - began < 60
        assert answer.result().status == 408
        assert "stopped coming" in answer.result().error()["message"]
        assert answer.result().header("connection") == "close"
        client.writer.close()
        await gateway.settled()


async def test_a_body_that_trickles_in_is_a_408_after_30_seconds(running: Running) -> None:
    await running[slow_body]


@side_by_side
async def silent_watch(folder: Path) -> None:
    async with (
        apiserver.ApiServer(folder) as api,
        rig.Gateway(folder, *api.flags, environment=api.environment) as gateway,
        stubs.Engine() as engine,
    ):
        api.deaf = True
        api.tell(rig.endpoint(engine.port, ready=True))

        async def ready() -> bool:
            count: int = (await gateway.queue())["replicas"]["ready"]
            return count == 1

        await rig.eventually(ready, within=90)
        assert (await gateway.ask(PLAIN)).status == 200


async def test_a_watch_that_is_silent_for_a_minute_is_opened_again(running: Running) -> None:
    await running[silent_watch]


@side_by_side
async def nobody_starts_it(folder: Path) -> None:
    flags = ("--activation-timeout-seconds", "60", "--heartbeat-interval-seconds", "60")
    async with rig.Gateway(folder, *flags) as gateway:
        answer = await gateway.ask(CHAT, within=60)
        assert answer.status == 503
        assert answer.error()["code"] == "not_activatable"
        assert "ScaledObject" in answer.error()["message"]
        assert answer.header("x-should-retry") == "false"


async def test_nobody_to_start_the_model_is_said_in_words(running: Running) -> None:
    await running[nobody_starts_it]
