"""Which replica gets a request, and which gets none any more."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FLAGS = rig.SHORT_LIMITS

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


async def test_a_new_pod_on_the_address_of_an_old_one_is_another_replica(
    gateway: rig.Gateway, engine: stubs.Engine
) -> None:
    """The old one's stream and kept connections say nothing about the new one."""
    go_on = asyncio.Event()

    async def wait_in_the_middle(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(b"")

    assert (await gateway.ask(PLAIN)).status == 200
    engine.script = wait_in_the_middle
    old = asyncio.create_task(gateway.ask(CHAT))
    await gateway.until(inFlight=1)
    gateway.tell(rig.endpoint(engine.port, pod="another"))
    await gateway.until(replicas={"ready": 0, "starting": 1, "terminating": 0})
    engine.script = stubs.plain
    engine.healthy = 503
    new = asyncio.create_task(gateway.ask(PLAIN))
    await gateway.until(waiting=1)
    go_on.set()
    assert (await old).complete
    assert (await gateway.queue())["waiting"] == 1, "the old one's answer proves nothing"
    engine.healthy = 200
    assert (await new).status == 200


async def test_an_engine_that_is_frozen_and_thawed_serves_again(
    gateway: rig.Gateway, tmp_path: Path
) -> None:
    """A process that is stopped takes connections still, since the kernel does."""
    port = rig.free_port()
    command = (sys.executable, "-m", "engine", "--port", str(port), "--tokens-per-second", "20")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    messages = [{"role": "user", "content": "a " * 200}]
    body = {"model": "noctaya-echo", "stream": True, "messages": messages}
    request = wire.post("/v1/chat/completions", body)
    try:
        gateway.tell(rig.endpoint(port))
        async with gateway.client() as client:
            client.send(request)
            await client.head()
            while b"choices" not in await client.chunk():
                pass
            process.send_signal(signal.SIGSTOP)
            rest, complete = await client.rest()
            assert complete and b'"code":"backend_timeout"' in rest
        answer = await gateway.ask(wire.post("/v1/chat/completions", body | {"stream": False}))
        assert (answer.status, answer.error()["code"]) == (504, "backend_timeout")
        process.send_signal(signal.SIGCONT)
        body["max_tokens"] = 2
        assert (await gateway.ask(wire.post("/v1/chat/completions", body))).status == 200
    finally:
        process.kill()
        await process.wait()
    gateway.tell()
    await gateway.ready(0)
    await gateway.settled()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b'{"items":null}', b'{"items":[1]}', b"[" * 100_000],
    ids=["empty", "binary", "list", "null", "number", "deep"],
)
async def test_a_list_of_replicas_that_cannot_be_read_changes_nothing(
    gateway: rig.Gateway, engine: stubs.Engine, content: bytes
) -> None:
    said = len(gateway.log("replicas not read"))
    gateway.tell_bytes(content)

    async def noticed() -> bool:
        return len(gateway.log("replicas not read")) > said

    await rig.eventually(noticed)
    assert (await gateway.ask(PLAIN)).status == 200
    assert (await gateway.queue())["replicas"]["ready"] == 1
