"""The gateway's ExternalScaler, called as KEDA calls it."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from gateway.proto import externalscaler_pb2 as pb
from tests.process.gateway import keda, rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path, "--target", "0.5") as gateway:
        yield gateway


async def test_the_metric_is_one_and_constant(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub:
        (spec,) = (await stub.GetMetricSpec(keda.OURS)).metricSpecs
        assert spec.metricName == "noctaya-demand"
        assert (spec.targetSize, spec.targetSizeFloat) == (1, 0.5)


async def test_polls_answer_waiting_plus_in_flight_at_this_moment(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub:
        assert await keda.demand(stub) == (False, 0)
        async with gateway.client() as a, gateway.client() as b:
            a.send(CHAT)
            b.send(CHAT)
            await gateway.until(waiting=2)
            assert await keda.demand(stub) == (True, 2)
        await gateway.until(waiting=0)
        assert await keda.demand(stub) == (True, 0), "the lease is not demand"


async def test_a_stream_begins_with_the_present_state(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub:
        before = keda.Pushes(stub.StreamIsActive(keda.OURS))
        assert await before.until(1) == [False]
        async with gateway.client() as client:
            client.send(CHAT)
            await gateway.until(waiting=1)
            after = keda.Pushes(stub.StreamIsActive(keda.OURS))
            assert await after.until(1) == [True]
            await after.cancel()
        await before.cancel()
        await gateway.until(scalerConnected=False)


async def test_fifty_requests_to_a_cold_model_are_one_signal(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub, stubs.Engine() as engine:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        asks = [asyncio.create_task(gateway.ask(CHAT)) for _ in range(50)]
        await gateway.until(waiting=50)
        assert await pushes.until(2) == [False, True]
        gateway.tell(rig.endpoint(engine.port))
        assert {answer.status for answer in await asyncio.gather(*asks)} == {200}
        # More than one only where it took so long that the signal was repeated.
        waited = time.monotonic() - pushes.messages[1][0]
        assert len(pushes.messages) <= 2 + waited
        await pushes.cancel()


async def test_every_open_stream_hears_of_demand(gateway: rig.Gateway) -> None:
    """KEDA may hold two streams for a while when a ScaledObject changes."""
    async with keda.calls(gateway.scaler_port) as stub:
        pushes = [keda.Pushes(stub.StreamIsActive(keda.OURS)) for _ in range(3)]
        for each in pushes:
            await each.until(1)
        async with gateway.client() as client:
            client.send(CHAT)
            for each in pushes:
                assert await each.until(2) == [False, True]
        for each in pushes:
            await each.cancel()


async def test_clients_that_come_and_go_while_cold_are_not_each_announced(
    gateway: rig.Gateway,
) -> None:
    async with keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        began = time.monotonic()
        for _ in range(30):
            async with gateway.client() as client:
                client.send(CHAT)
                await gateway.until(waiting=1)
            await gateway.until(waiting=0)
        most = 2 + (time.monotonic() - began)
        assert 2 <= len(pushes.messages) <= most + 1
        await pushes.cancel()


async def test_a_young_gateway_keeps_a_backend_that_is_up(tmp_path: Path) -> None:
    """The gateway it replaced may still carry streams through it."""
    async with (
        rig.Gateway(tmp_path) as gateway,
        keda.calls(gateway.scaler_port) as stub,
        stubs.Engine() as engine,
    ):
        assert await keda.demand(stub) == (False, 0)
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        assert await keda.demand(stub) == (True, 0)
        gateway.tell()
        await gateway.ready(0)
        assert await keda.demand(stub) == (False, 0)


async def test_a_strangers_reference_gets_an_answer_and_no_activity(gateway: rig.Gateway) -> None:
    stranger = pb.ScaledObjectRef(name="other", namespace="ns")
    async with keda.calls(gateway.scaler_port) as stub, gateway.client() as client:
        client.send(CHAT)
        await gateway.until(waiting=1)
        assert len((await stub.GetMetricSpec(stranger)).metricSpecs) == 1
        assert not (await stub.IsActive(stranger)).result
        request = pb.GetMetricsRequest(scaledObjectRef=stranger)
        assert (await stub.GetMetrics(request)).metricValues[0].metricValueFloat == 0
        pushes = keda.Pushes(stub.StreamIsActive(stranger))
        assert await pushes.until(1) == [False]
        await pushes.cancel()


async def test_until_the_first_list_of_replicas_polls_are_unavailable(tmp_path: Path) -> None:
    """On which KEDA changes nothing; a wrong ``false`` would let it kill a serving backend."""
    hidden = tmp_path / "hidden.json"
    flags = ("--replicas-from", f"file:{hidden}")
    gateway = rig.Gateway(tmp_path, *flags, readable=False)
    async with gateway, keda.calls(gateway.scaler_port) as stub:
        for call in (
            stub.IsActive(keda.OURS),
            stub.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=keda.OURS)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert len((await stub.GetMetricSpec(keda.OURS)).metricSpecs) == 1
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await asyncio.sleep(0.3)
        assert pushes.messages == []
        ready = await gateway.ask(wire.get("/readyz"))
        assert ready.status == 503
        assert str(hidden) in ready.error()["message"]
        hidden.write_text('{"items":[]}')
        assert await pushes.until(1) == [False]
        assert await keda.demand(stub) == (False, 0)
        assert (await gateway.ask(wire.get("/readyz"))).status == 200
        await pushes.cancel()


async def test_streams_end_cleanly_when_the_gateway_is_told_to_stop(gateway: rig.Gateway) -> None:
    """After any other end KEDA waits longer and longer before it comes back."""
    async with keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        stopping = asyncio.create_task(gateway.stop())
        assert await pushes.code() is grpc.StatusCode.OK
        assert await stopping == 0


async def test_the_first_demand_is_pushed_within_milliseconds(tmp_path: Path) -> None:
    """Measured from the client's send on; judged by the median, since the machine is shared."""
    delays = []
    flags = ("--activation-timeout-seconds", "0.05")
    async with rig.Gateway(tmp_path, *flags) as gateway, keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        for _ in range(40):
            seen = len(pushes.messages)
            async with gateway.client() as client:
                sent = time.monotonic()
                client.send(CHAT)
                await client.response()
            await gateway.until(active=False)
            await pushes.until(seen + 1)
            delays.append(pushes.messages[seen][0] - sent)
        await pushes.cancel()
    assert statistics.median(delays) < 0.01, delays


async def test_a_request_knows_when_its_demand_was_signalled(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub, stubs.Engine() as engine:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        ask = asyncio.create_task(gateway.ask(CHAT))
        await pushes.until(2)
        gateway.tell(rig.endpoint(engine.port))
        await ask
        phases = (await gateway.last_request())["phases"]
        assert phases["accepted"] <= phases["signalled"] < phases["released"]
        await pushes.cancel()


async def test_a_keda_that_does_not_read_its_stream_holds_nothing_up(
    gateway: rig.Gateway,
) -> None:
    """KEDA takes no message while it is busy scaling; its polls, and other streams, go on."""
    async with keda.calls(gateway.scaler_port) as stub:
        unread = stub.StreamIsActive(keda.OURS)
        read = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await read.until(1)
        async with gateway.client() as client:
            client.send(CHAT)
            assert await read.until(3) == [False, True, True]
            assert await keda.demand(stub) == (True, 1)
            assert (await unread.read()).result is False, "in order, once it reads again"
        unread.cancel()
        await read.cancel()
    await gateway.until(waiting=0, scalerConnected=False)


async def test_a_keda_that_restarts_is_told_at_once_what_it_missed(gateway: rig.Gateway) -> None:
    async with keda.calls(gateway.scaler_port) as stub:
        before = keda.Pushes(stub.StreamIsActive(keda.OURS))
        assert await before.until(1) == [False]
        await before.cancel()
    await gateway.until(scalerConnected=False)
    async with gateway.client() as client:
        client.send(CHAT)
        await gateway.until(waiting=1)
        async with keda.calls(gateway.scaler_port) as stub:
            after = keda.Pushes(stub.StreamIsActive(keda.OURS))
            assert await after.until(1) == [True]
            assert (await gateway.queue())["activation"]["signalled"] is not None
            await after.cancel()
    await gateway.until(waiting=0, scalerConnected=False)
