"""The scaler's slow rules: what it says again, or lets go of, after seconds."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.process.gateway import keda, rig, sidebyside, stubs, wire
from tests.process.gateway.sidebyside import Running

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "messages": []})

side_by_side = sidebyside.SideBySide()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with side_by_side.running(tmp_path_factory) as tasks:
        yield tasks


@side_by_side
async def waits_in_vain(folder: Path) -> None:
    async with rig.Gateway(folder) as gateway, keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        async with gateway.client() as a, gateway.client() as b:
            a.send(CHAT)
            await pushes.until(2)
            b.send(CHAT)
            assert await pushes.until(5, within=40) == [False, True, True, True, True]
            first = pushes.messages[1][0]
            one, three, eight = (at - first for at, _ in pushes.messages[2:])
            # A busy machine may be late, and is never early.
            assert 0.9 < one < three - 1.5 < three < eight - 3
            assert three > 2.9
            assert eight > 7.9
            async with stubs.Engine() as engine:
                gateway.tell(rig.endpoint(engine.port))
                assert (await a.response()).status == (await b.response()).status == 200
                said = len(pushes.messages)
                await asyncio.sleep(5.5)
        assert len(pushes.messages) == said, "a replica answers: nothing more to say"
        await pushes.cancel()


async def test_true_is_repeated_sparsely_while_a_request_waits_in_vain(running: Running) -> None:
    """KEDA drops a push that comes at a bad moment, and is slowed down by many."""
    await running[waits_in_vain]


@side_by_side
async def warm_use(folder: Path) -> None:
    async with (
        rig.Gateway(folder) as gateway,
        keda.calls(gateway.scaler_port) as stub,
        stubs.Engine() as engine,
    ):
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        # A young gateway speaks for a backend that is up.
        assert await pushes.until(1) == [True]
        began = time.monotonic()
        for _ in range(50):
            assert (await gateway.ask(CHAT)).status == 200
        assert len(pushes.messages) <= 1 + (time.monotonic() - began) // 5
        said = len(pushes.messages)
        await asyncio.sleep(5.1)
        assert (await gateway.ask(CHAT)).status == 200
        assert (await pushes.until(said + 1))[-1] is True
        await pushes.cancel()


async def test_use_of_a_warm_model_is_pushed_at_most_every_five_seconds(running: Running) -> None:
    await running[warm_use]


@side_by_side
async def woken_by_itself(folder: Path) -> None:
    async with (
        rig.Gateway(folder) as gateway,
        keda.calls(gateway.scaler_port) as stub,
        stubs.Engine() as engine,
    ):
        assert await keda.demand(stub) == (False, 0)
        async with gateway.client() as client:
            client.send(CHAT)
            await gateway.until(waiting=1)
            gateway.tell(rig.endpoint(engine.port, ready=True))
            await gateway.until(waiting=0)
        # Well before the minute in which a young gateway speaks for a backend.
        await demand_is(stub, False, 0, within=40)


async def test_a_young_gateway_lets_go_of_a_backend_that_it_woke_itself(running: Running) -> None:
    """Nobody else's streams run through it, so idle is idle from the first minute on."""
    await running[woken_by_itself]


@side_by_side
async def members_see_nothing(folder: Path) -> None:
    async with rig.Gateway(folder, "--member") as one, rig.Gateway(folder) as two:
        both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        async with (
            rig.Gateway(folder, "--aggregate", told=both) as scaler,
            keda.calls(scaler.scaler_port) as stub,
            stubs.Engine() as engine,
        ):
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            ask = asyncio.create_task(one.ask(CHAT, within=60))
            assert await pushes.until(4) == [False, True, True, True]
            one.tell(rig.endpoint(engine.port))
            two.tell(rig.endpoint(engine.port))
            assert (await ask).status == 200
            seen = len(pushes.messages)
            await asyncio.sleep(5.5)
            assert len(pushes.messages) <= seen + 1
            await pushes.cancel()


async def test_true_is_repeated_until_a_member_sees_a_replica(running: Running) -> None:
    await running[members_see_nothing]


@side_by_side
async def silent_member(folder: Path) -> None:
    async with rig.Gateway(folder, "--member") as one, rig.Gateway(folder) as two:
        both = (rig.endpoint(one.port, ready=True), rig.endpoint(two.port, ready=True))
        async with (
            rig.Gateway(folder, "--aggregate", told=both) as scaler,
            keda.calls(scaler.scaler_port) as stub,
            one.client() as client,
        ):
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            client.send(CHAT)
            await demand_is(stub, True, 1)
            one.process.send_signal(signal.SIGSTOP)
            try:
                stopped = time.monotonic()
                while time.monotonic() - stopped < 7:
                    assert await keda.demand(stub) == (True, 1)
                    await asyncio.sleep(0.5)
                await demand_is(stub, False, 0)
            finally:
                one.process.send_signal(signal.SIGCONT)
            await demand_is(stub, True, 1)
            await pushes.cancel()


async def test_a_member_that_falls_silent_keeps_its_last_word_for_ten_seconds(
    running: Running,
) -> None:
    await running[silent_member]


async def demand_is(stub: Any, active: bool, demand: float, *, within: float = 20) -> None:
    async def reached() -> bool:
        return await keda.demand(stub) == (active, demand)

    await rig.eventually(reached, within=within)
