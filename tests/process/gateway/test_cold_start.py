import asyncio
import json
import statistics
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def test_a_streaming_request_is_kept_alive_until_the_engine_answers(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, gateway.client() as client:
        client.send(CHAT)
        status, headers = await client.head()
        assert status == 200
        assert ("content-type", "text/event-stream; charset=utf-8") in headers
        assert ("cache-control", "no-cache") in headers
        assert await client.chunk() == b": keep-alive\n\n"
        assert (await gateway.queue())["waiting"] == 1
        async with stubs.Engine(stubs.stream) as engine:
            gateway.tell(rig.endpoint(engine.port))
            body, complete = await client.rest()
        assert complete
        assert body.replace(b": keep-alive\n\n", b"") == b"".join(
            (stubs.CHUNK_1, stubs.CHUNK_2, stubs.DONE)
        )
        assert len(engine.received) == 1
        assert engine.received[0].header("accept-encoding") == "identity"
        client.writer.close()
        await gateway.settled()


async def test_no_status_is_sent_before_the_first_heartbeat(tmp_path: Path) -> None:
    """So that a failure which is quick keeps its true status, on which SDKs act."""
    flags = ("--heartbeat-interval-seconds", "30", "--activation-timeout-seconds", "0.5")
    async with rig.Gateway(tmp_path, *flags) as gateway:
        answer = await gateway.ask(CHAT)
        assert answer.status == 503
        assert answer.error()["code"] == "activation_timeout"
        assert 1 <= int(answer.header("retry-after") or 0) <= 60
        await gateway.settled()


async def test_a_client_that_waits_for_less_gets_heartbeats_sooner_than_those_before_it(
    tmp_path: Path,
) -> None:
    impatient = wire.post(
        "/v1/chat/completions",
        {"model": "m", "stream": True, "messages": []},
        headers={"x-stainless-read-timeout": "1"},
    )
    flags = ("--heartbeat-interval-seconds", "30", "--activation-timeout-seconds", "5")
    async with (
        rig.Gateway(tmp_path, *flags) as gateway,
        gateway.client() as patient,
        gateway.client() as other,
    ):
        patient.send(CHAT)
        await asyncio.sleep(0.2)
        other.send(impatient)
        status, _ = await other.head()
        assert status == 200
        body, _ = await other.rest()
        assert body.count(b": keep-alive") >= 5
        assert b"activation_timeout" in body
        # Its wait was over before its first heartbeat.
        assert (await patient.head())[0] == 503


async def test_a_plain_request_waits_for_its_answer_without_a_byte(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, gateway.client() as client:
        client.send(PLAIN)
        await gateway.until(waiting=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.6)
        async with stubs.Engine() as engine:
            gateway.tell(rig.endpoint(engine.port))
            assert (await client.response()).json() == {"ok": True}
        client.writer.close()
        await gateway.settled()


async def test_a_plain_request_is_told_to_come_back_when_its_client_is_about_to_give_up(
    tmp_path: Path,
) -> None:
    async with rig.Gateway(tmp_path) as gateway:
        asked = {"x-stainless-read-timeout": "1.0"}
        answer = await gateway.ask(wire.post("/v1/completions", {"model": "m"}, headers=asked))
        assert answer.status == 503
        assert answer.error()["code"] == "backend_starting"
        assert (await gateway.last_request())["outcome"] == "hold_timeout"
        assert (await gateway.queue())["active"], "the lease outlives the client"


async def test_an_activation_that_takes_too_long_ends_the_stream_with_an_error_event(
    tmp_path: Path,
) -> None:
    async with rig.Gateway(tmp_path, "--activation-timeout-seconds", "0.7") as gateway:
        answer = await gateway.ask(CHAT)
        assert (answer.status, answer.complete) == (200, True)
        *heartbeats, event, done, end = answer.body.split(b"\n\n")
        assert set(heartbeats) == {b": keep-alive"}
        assert event.startswith(b'data: {"error":{"message":"the model did not start within')
        assert b'"code":"activation_timeout"' in event
        assert (done, end) == (b"data: [DONE]", b"")
        await gateway.settled()
        assert not (await gateway.queue())["active"]


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("absent", "it has no replica with an address"),
        ("not listening", "its engine takes no connection"),
        ("refusing", "its engine answers GET /health with 404"),
    ],
)
async def test_a_start_that_takes_too_long_is_told_with_what_the_engine_answers(
    engine: str, told: str, tmp_path: Path
) -> None:
    async with (
        rig.Gateway(tmp_path, "--activation-timeout-seconds", "1.5") as gateway,
        stubs.Engine() as stub,
    ):
        stub.healthy = 404
        if engine != "absent":
            gateway.tell(rig.endpoint(stub.port))
        if engine == "not listening":
            await stub.stop()
        error = (await gateway.ask(PLAIN)).error()
        assert error["code"] == "activation_timeout"
        assert f" ({told}); the status of LLMService ns/m says why" in error["message"]


async def test_a_port_that_opens_before_the_engine_is_healthy_is_waited_for(tmp_path: Path) -> None:
    async with (
        rig.Gateway(tmp_path) as gateway,
        stubs.Engine(stubs.stream) as engine,
        gateway.client() as client,
    ):
        engine.healthy = 503
        gateway.tell(rig.endpoint(engine.port))
        client.send(CHAT)
        await client.head()
        await asyncio.sleep(0.5)
        assert not engine.received
        engine.healthy = 200
        body, complete = await client.rest()
        assert complete and body.endswith(stubs.DONE)


async def test_one_prober_asks_for_all_waiters(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, stubs.Engine() as engine:
        engine.healthy = 503
        gateway.tell(rig.endpoint(engine.port))
        asks = [asyncio.create_task(gateway.ask(PLAIN)) for _ in range(20)]
        await gateway.until(waiting=20)
        before = engine.health_checks
        await asyncio.sleep(1.0)
        asked = engine.health_checks - before
        engine.healthy = 200
        answers = await asyncio.gather(*asks)
        assert [answer.status for answer in answers] == [200] * 20
        assert asked <= 1.0 / 0.015, "as often as for a single waiter"
        before = engine.health_checks
        await asyncio.sleep(0.3)
        assert engine.health_checks == before, "nobody waits, nobody asks"
        await gateway.settled()


async def test_a_held_request_leaves_as_soon_as_the_engine_says_200(tmp_path: Path) -> None:
    """Median of twenty: one run's worst says more about the machine."""
    delays = []
    async with rig.Gateway(tmp_path) as gateway:
        for _ in range(20):
            async with stubs.Engine() as engine:
                engine.healthy = 503
                gateway.tell(rig.endpoint(engine.port))
                ask = asyncio.create_task(gateway.ask(PLAIN))
                await gateway.until(waiting=1)
                loop = asyncio.get_running_loop()
                engine.healthy, since = 200, loop.time()
                assert (await ask).status == 200
                delays.append(loop.time() - since)
            gateway.tell()
            await gateway.ready(0)
    assert statistics.median(delays) < 0.06, delays


async def test_reject_mode_refuses_at_once_and_keeps_the_model_wanted(tmp_path: Path) -> None:
    flags = ("--cold-start", "reject", "--activation-timeout-seconds", "60")
    async with rig.Gateway(tmp_path, *flags) as gateway, stubs.Engine() as engine:
        engine.healthy = 503
        answer = await gateway.ask(CHAT)
        assert answer.status == 503
        assert answer.error()["code"] == "backend_starting"
        assert 1 <= int(answer.header("retry-after") or 0) <= 60
        state = await gateway.queue()
        assert (state["demand"], state["active"]) == (0, True)
        gateway.tell(rig.endpoint(engine.port))
        await asyncio.sleep(0.2)
        engine.healthy = 200
        await gateway.ready()
        assert (await gateway.ask(PLAIN)).status == 200


async def test_a_client_that_leaves_while_waiting_takes_its_demand_with_it(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--activation-timeout-seconds", "3") as gateway:
        async with gateway.client() as client:
            client.send(CHAT)
            await gateway.until(waiting=1, demand=1)
        await gateway.until(waiting=0, demand=0)
        assert (await gateway.queue())["active"], "the lease outlives the client"
        assert (await gateway.last_request())["outcome"] == "abandoned"
        await gateway.until(active=False, activation=None)
        await gateway.settled()


async def test_a_refused_warm_request_joins_the_activation(tmp_path: Path) -> None:
    """Kubernetes still says ready while the engine of a crashed container refuses."""
    engine = stubs.Engine()
    async with rig.Gateway(tmp_path) as gateway:
        await engine.start()
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        assert (await gateway.ask(PLAIN)).status == 200
        await engine.stop()
        ask = asyncio.create_task(gateway.ask(PLAIN))
        await gateway.until(waiting=1)
        await engine.start()
        assert (await ask).status == 200
        await engine.stop()


async def test_an_engine_that_says_503_right_after_its_start_is_asked_again(
    tmp_path: Path,
) -> None:
    async def full_at_first(to: stubs.Wire, received: stubs.Received) -> None:
        if len(engine.received) < 3:
            await to.answer(503, b'{"error":{"message":"full"}}')
        else:
            await stubs.plain(to, received)

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(full_at_first) as engine:
        ask = asyncio.create_task(gateway.ask(PLAIN))
        await gateway.until(waiting=1)
        gateway.tell(rig.endpoint(engine.port))
        assert (await ask).status == 200
        assert len(engine.received) == 3
        engine.received.clear()
        assert (await gateway.ask(PLAIN)).status == 503, "warm, the engine's own answer counts"
        await gateway.settled()


async def test_a_long_queue_is_released_at_the_pace_that_the_new_replica_takes_it(
    tmp_path: Path,
) -> None:
    """It takes four at a time and says 503 to the rest, as an engine with a short queue does."""
    at_once = most = 0
    served: list[bytes] = []

    async def take_four(to: stubs.Wire, received: stubs.Received) -> None:
        nonlocal at_once, most
        if at_once >= 4:
            await to.answer(503, b'{"error":{"message":"full"}}')
            return
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        served.append(received.body)
        await to.answer(200, received.body)

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(take_four) as engine:
        asks = [
            asyncio.create_task(gateway.ask(wire.post("/v1/completions", {"n": n}), within=60))
            for n in range(60)
        ]
        await gateway.until(waiting=60)
        gateway.tell(rig.endpoint(engine.port))
        answers = await asyncio.gather(*asks)
        assert [a.json() for a in answers] == [{"n": n} for n in range(60)]
        assert len(served) == len(set(served)) == 60
        assert most <= 4
        await gateway.settled()


async def test_three_cycles_are_alike(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway:
        for _ in range(3):
            async with stubs.Engine(stubs.stream) as engine:
                ask = asyncio.create_task(gateway.ask(CHAT))
                await gateway.until(waiting=1)
                gateway.tell(rig.endpoint(engine.port))
                assert (await ask).body.endswith(stubs.DONE)
                gateway.tell(rig.endpoint(engine.port, terminating=True))
                await gateway.ready(0)
            gateway.tell()
            await gateway.settled()
        ready = 'noctaya_activations_total{result="ready"}'
        assert await gateway.metric(ready) == 3


async def test_a_cold_start_is_logged_phase_by_phase(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, stubs.Engine() as engine:
        ask = asyncio.create_task(gateway.ask(PLAIN))
        await gateway.until(waiting=1)
        gateway.tell(rig.endpoint(engine.port))
        await ask
        line = await gateway.last_request()
        phases = line["phases"]
        moments = [phases[name] for name in ("accepted", "released", "forwarded", "first_byte")]
        assert moments == sorted(moments)
        assert line["replica"] == f"127.0.0.1:{engine.port}"


@pytest.mark.parametrize(
    ("path", "beat"),
    [
        ("/v1/chat/completions", {"object": "chat.completion.chunk", "model": "m"}),
        ("/v1/completions", {"object": "text_completion", "model": "m"}),
        ("/v1/messages", {"type": "ping"}),
    ],
)
async def test_heartbeats_can_be_data_for_clients_that_count_only_that(
    tmp_path: Path, path: str, beat: dict[str, str]
) -> None:
    async with rig.Gateway(tmp_path, "--data-heartbeats") as gateway, gateway.client() as client:
        client.send(wire.post(path, {"model": "m", "stream": True}))
        await client.head()
        data = (await client.chunk()).rpartition(b"data: ")[2]
        assert beat.items() <= json.loads(data).items()
