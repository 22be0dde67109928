"""Which replica gets a request, and which gets none any more."""

import asyncio

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_a_terminating_replica_finishes_its_stream_and_gets_no_other(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    go_on = asyncio.Event()

    async def wait_in_the_middle(to: stubs.Wire, received: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(stubs.DONE)
        await to.chunk(b"")

    engine.script = wait_in_the_middle
    first = asyncio.create_task(gateway.ask(CHAT))
    await gateway.until(inFlight=1)
    async with stubs.Engine(stubs.stream) as other:
        gateway.tell(
            rig.endpoint(engine.port, ready=True, terminating=True),
            rig.endpoint(other.port, ready=True),
        )
        await gateway.until(replicas={"ready": 1, "starting": 0, "terminating": 1})
        assert (await gateway.ask(CHAT)).complete
        assert (len(engine.received), len(other.received)) == (1, 1)
        go_on.set()
        assert (await first).body == stubs.CHUNK_1 + stubs.DONE
    await gateway.settled()


async def test_requests_go_to_the_replica_with_the_fewest_in_flight(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    go_on = asyncio.Event()

    async def slow(to: stubs.Wire, _: stubs.Received) -> None:
        await go_on.wait()
        await to.answer()

    engine.script = slow
    async with stubs.Engine(slow) as other:
        asks = [asyncio.create_task(gateway.ask(PLAIN)) for _ in range(4)]
        await gateway.until(inFlight=4)
        gateway.tell(rig.endpoint(engine.port, ready=True), rig.endpoint(other.port, ready=True))
        await gateway.ready(2)
        asks += [asyncio.create_task(gateway.ask(PLAIN)) for _ in range(4)]
        await gateway.until(inFlight=8)

        async def all_came() -> bool:
            return len(engine.received) + len(other.received) == 8

        await rig.eventually(all_came)
        assert (len(engine.received), len(other.received)) == (4, 4)
        go_on.set()
        assert {answer.status for answer in await asyncio.gather(*asks)} == {200}


async def test_a_replica_that_refuses_is_left_out_and_returns(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """Its container restarts quicker than the kubelet notices, so the slices never change."""
    other = stubs.Engine()
    await other.start()
    gateway.tell(rig.endpoint(engine.port, ready=True), rig.endpoint(other.port, ready=True))
    await gateway.ready(2)
    await other.stop()
    for _ in range(6):
        assert (await gateway.ask(PLAIN)).status == 200
    assert (await gateway.queue())["replicas"] == {"ready": 1, "starting": 1, "terminating": 0}
    await other.start()
    await gateway.ready(2)
    for _ in range(4):
        assert (await gateway.ask(PLAIN)).status == 200
    assert other.received
    await other.stop()
