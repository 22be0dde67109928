"""What the machine runs out of, and that the gateway outlasts it."""

import asyncio
import contextlib
import json
import resource
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_without_file_descriptors_it_serves_on_does_not_spin_and_comes_back(
    tmp_path: Path,
) -> None:
    go_on = asyncio.Event()

    async def pause(to: stubs.Wire, received: stubs.Received) -> None:
        if b"stream" not in received.body:
            await stubs.plain(to, received)
            return
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(stubs.DONE)
        await to.chunk(b"")

    async def answers() -> bool:
        try:
            return (await gateway.ask(PLAIN, within=2)).status == 200
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(pause) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as running:
            running.send(wire.post("/v1/chat/completions", {"stream": True}))
            await running.head()
            assert await running.chunk() == stubs.CHUNK_1
            allow(gateway, gateway.open_files() + 10)
            crowd = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(100)]
            before = gateway.cpu_seconds()
            await asyncio.sleep(2)
            assert gateway.cpu_seconds() - before < 0.2, "it waits, it does not try over and over"
            go_on.set()
            assert await running.rest() == (stubs.DONE, True)
        for _, writer in crowd:
            writer.close()
        await rig.eventually(answers)
        await gateway.settled()


@pytest.mark.parametrize("spare", [0, 1])
async def test_a_request_that_no_descriptor_is_left_for_is_refused_and_nothing_else_suffers(
    tmp_path: Path, spare: int
) -> None:
    """The replica is not at fault: it keeps its place, and nobody is to start another."""
    refused = asyncio.Event()

    async def busy(to: stubs.Wire, received: stubs.Received) -> None:
        # Or the request that gets the descriptor would lend its connection to the other one.
        await refused.wait()
        await stubs.plain(to, received)

    async def ask(client: wire.Client) -> wire.Response:
        answer = await client.ask(PLAIN)
        if answer.status == 503:
            refused.set()
        return answer

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(busy) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as one, gateway.client() as two:
            for client in (one, two):
                await client.ask(wire.get("/healthz"))
            allow(gateway, gateway.open_files() + spare)
            before = gateway.cpu_seconds()
            answers = await asyncio.gather(ask(one), ask(two))
            assert gateway.cpu_seconds() - before < 0.2, "it waits, it does not try over and over"
            assert sorted(a.status for a in answers) == [200] * spare + [503] * (2 - spare)
            for answer in answers:
                if answer.status == 503:
                    assert answer.error()["code"] == "gateway_exhausted"
                    assert int(answer.header("retry-after") or 0) >= 1
            state = json.loads((await one.ask(wire.get("/noctaya/queue"))).body)
            assert (state["replicas"]["ready"], state["activation"]) == (1, None)
            again = asyncio.create_task(one.ask(PLAIN))
            if not spare:
                # It waits for a descriptor rather than for its replica.
                await asyncio.sleep(0.5)
                assert not again.done()
            allow(gateway, 1000)
            assert (await again).status == 200
        gateway.tell()
        await gateway.ready(0)
        await gateway.settled()


async def test_held_streams_outlast_a_time_without_descriptors(tmp_path: Path) -> None:
    """Their replica is neither read of, nor asked, nor connected to until there is one again."""
    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(stubs.stream) as engine:
        async with gateway.client() as held:
            held.send(wire.post("/v1/chat/completions", {"stream": True}))
            await held.head()
            allow(gateway, gateway.open_files())
            gateway.tell(rig.endpoint(engine.port))
            before = gateway.cpu_seconds()
            beats = [await held.chunk() for _ in range(10)]
            assert set(beats) == {b": keep-alive\n\n"}
            assert gateway.cpu_seconds() - before < 0.5, "it waits, it does not try over and over"
            assert not engine.health_checks
            allow(gateway, 1000)
            text, complete = await held.rest()
            assert complete
            assert text.endswith(stubs.CHUNK_1 + stubs.CHUNK_2 + stubs.DONE)
        gateway.tell()
        await gateway.ready(0)
        await gateway.settled()


async def test_a_torn_answer_is_reset_even_without_a_descriptor(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def tear(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: hal")
        await go_on.wait()
        to.close()

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(tear) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as client:
            # To a client of HTTP/1.0 an ordinary end would say that this was all.
            client.send(PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"))
            await client.head()
            allow(gateway, gateway.open_files())
            go_on.set()
            with pytest.raises(ConnectionResetError):
                while await client.reader.read(100):
                    pass
        allow(gateway, 1000)
        gateway.tell()
        await gateway.ready(0)
        await gateway.settled()
        gateway.no_faults()


async def test_the_soft_limit_on_descriptors_is_lifted(tmp_path: Path) -> None:
    """Container runtimes set one of 1024, and each request takes two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1000:
        pytest.skip(f"at most {hard} descriptors are allowed here")
    gateway = rig.Gateway(tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        await gateway.__aenter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_exit(gateway)
        clients = [await stack.enter_async_context(gateway.client()) for _ in range(200)]
        answers = await asyncio.gather(*(c.ask(wire.get("/healthz")) for c in clients))
        assert {answer.status for answer in answers} == {200}


def allow(gateway: rig.Gateway, files: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (files, most))


async def test_clients_that_give_up_fast_leave_no_memory_behind(tmp_path: Path) -> None:
    """Many clients with a short patience on a model that never starts."""

    async def give_up() -> None:
        async with gateway.client() as client:
            client.send(wire.post("/v1/chat/completions", {"pad": "x" * 2000}))
            await asyncio.sleep(0.05)

    async with rig.Gateway(tmp_path, "--activation-timeout-seconds", "60") as gateway:
        for _ in range(10):
            await asyncio.gather(*(give_up() for _ in range(50)))
        before = gateway.resident_kib()
        for _ in range(30):
            await asyncio.gather(*(give_up() for _ in range(50)))
        await gateway.until(waiting=0, demand=0)
        assert gateway.resident_kib() - before < 2048
