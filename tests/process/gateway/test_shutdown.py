import asyncio
import time
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_an_idle_gateway_accepts_a_while_longer_and_exits_with_0(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--accept-after-term-seconds", "1") as gateway:
        stopping = asyncio.create_task(gateway.stop())

        async def not_ready() -> bool:
            return (await gateway.ask(wire.get("/readyz"))).status == 503

        await rig.eventually(not_ready)
        late = await gateway.ask(wire.get("/healthz"))
        assert (late.status, late.header("connection")) == (200, "close")
        assert await stopping == 0
        with pytest.raises(ConnectionRefusedError):
            await gateway.ask(wire.get("/healthz"))


async def test_running_and_held_requests_are_finished_first(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def wait_in_the_middle(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(stubs.DONE)
        await to.chunk(b"")

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(wait_in_the_middle) as engine:
        held = asyncio.create_task(gateway.ask(CHAT, within=60))
        await gateway.until(waiting=1)
        stopping = asyncio.create_task(gateway.stop())
        await asyncio.sleep(0.5)
        gateway.tell(rig.endpoint(engine.port))

        async def running() -> bool:
            return bool(engine.received)

        await rig.eventually(running)
        assert not stopping.done()
        go_on.set()
        answer = await held
        assert answer.complete and answer.body.endswith(stubs.CHUNK_1 + stubs.DONE)
        assert await stopping == 0


async def test_an_idle_kept_connection_does_not_hold_the_gateway_up(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, gateway.client() as client:
        assert (await client.ask(wire.get("/healthz"))).status == 200
        began = time.monotonic()
        assert await gateway.stop() == 0
        assert time.monotonic() - began < 3


async def test_a_second_signal_answers_what_is_left_and_ends(tmp_path: Path) -> None:
    """As the end of the grace does, after a minute or more."""

    async def hang(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await to.left()

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(hang) as engine:
        beating = asyncio.create_task(gateway.ask(CHAT))
        await gateway.until(waiting=1)
        await asyncio.sleep(0.3)
        async with gateway.client() as client:
            gateway.tell(rig.endpoint(engine.port, ready=True))
            await gateway.ready()
            client.send(CHAT)
            await gateway.until(inFlight=2)
            gateway.process.terminate()
            await asyncio.sleep(0.3)
            gateway.process.terminate()
            running = await client.response()
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
        for answer in (running, await beating):
            assert answer.complete
            assert b'"code":"gateway_stopping"' in answer.body
            assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_a_held_plain_request_gets_503_at_the_end(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway:
        held = asyncio.create_task(gateway.ask(PLAIN))
        await gateway.until(waiting=1)
        gateway.process.terminate()
        await asyncio.sleep(0.3)
        gateway.process.terminate()
        answer = await held
        assert answer.status == 503
        assert answer.error()["code"] == "gateway_stopping"
        assert answer.header("retry-after") == "1"
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
        assert gateway.log("request")[-1]["outcome"] == "shutdown"


async def test_no_answer_is_torn_or_lost_by_a_stop_under_load(tmp_path: Path) -> None:
    """Whoever got through gets a whole answer; who comes too late is refused a connection."""

    async def some_tokens(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        for chunk in (stubs.CHUNK_1,) * 5 + (stubs.DONE, b""):
            await to.chunk(chunk)
            await asyncio.sleep(0.02)

    whole = stubs.CHUNK_1 * 5 + stubs.DONE
    served = late = 0

    async def ask_on(gateway: rig.Gateway) -> None:
        """One connection after another, as a client that is told to close them does."""
        nonlocal served, late
        while True:
            try:
                async with gateway.client() as client:
                    for _ in range(3):
                        client.send(CHAT)
                        status, headers = await client.head()
                        assert (status, await client.rest()) == (200, (whole, True))
                        served += 1
                        if ("connection", "close") in headers:
                            break
            except (ConnectionError, asyncio.IncompleteReadError) as e:
                # The kernel took a connection that nobody accepted, or it was idle: no byte came.
                assert not getattr(e, "partial", b"")
                late += 1
                return

    flags = ("--accept-after-term-seconds", "0.5")
    async with rig.Gateway(tmp_path, *flags) as gateway, stubs.Engine(some_tokens) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        clients = [asyncio.create_task(ask_on(gateway)) for _ in range(20)]
        await asyncio.sleep(0.5)
        assert await gateway.stop() == 0
        await asyncio.wait_for(asyncio.gather(*clients), 20)
        assert served > 40
        assert late == 20
        outcomes = {line["outcome"] for line in gateway.log("request")}
        assert outcomes == {"served"}
