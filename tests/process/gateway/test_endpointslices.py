import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.gateway import apiserver, rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[apiserver.ApiServer]:
    async with apiserver.ApiServer(tmp_path) as api:
        yield api


@pytest.fixture
async def gateway(api: apiserver.ApiServer, tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path, *api.flags, environment=api.environment) as gateway:
        yield gateway


async def test_a_change_arrives_through_the_watch(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    async with stubs.Engine() as engine:
        lists = api.lists
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        api.bookmark()
        api.tell(rig.endpoint(engine.port, ready=True, terminating=True))
        await gateway.until(replicas={"ready": 0, "starting": 0, "terminating": 1})
        api.tell()
        await gateway.until(replicas={"ready": 0, "starting": 0, "terminating": 0})
        assert api.lists == lists


async def test_a_lost_event_costs_a_waiting_request_two_seconds_at_most(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    api.deaf = True
    async with stubs.Engine() as engine:
        ask = asyncio.create_task(gateway.ask(CHAT))
        await gateway.until(waiting=1)
        await asyncio.sleep(0.3)
        began = asyncio.get_running_loop().time()
        api.tell(rig.endpoint(engine.port))
        assert (await ask).status == 200
        assert asyncio.get_running_loop().time() - began < 4


async def test_a_watch_that_ends_or_expires_is_opened_again(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    async def watched_again() -> bool:
        return api.watches > watches

    for end in (api.end_watches, api.expire_watches):
        watches = api.watches
        end()
        await rig.eventually(watched_again)
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()


async def test_the_last_known_replicas_serve_while_the_api_server_is_away(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        await api.stop()
        for _ in range(5):
            assert (await gateway.ask(CHAT)).status == 200
            assert (await gateway.ask(wire.get("/readyz"))).status == 200
            await asyncio.sleep(0.1)
        await api.start()
        api.tell()
        await gateway.ready(0)


async def test_a_token_that_was_replaced_is_read_again(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    api.grant("second")
    api.end_watches()
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()


async def test_without_permission_the_gateway_is_not_ready_and_says_so(
    api: apiserver.ApiServer, tmp_path: Path
) -> None:
    api.forbidden = True
    gateway = rig.Gateway(tmp_path, *api.flags, environment=api.environment, readable=False)
    async with gateway:

        async def says_so() -> bool:
            answer = await gateway.ask(wire.get("/readyz"))
            return answer.status == 503 and "forbidden" in answer.error()["message"]

        await rig.eventually(says_so)
        api.forbidden = False

        async def ready() -> bool:
            return (await gateway.ask(wire.get("/readyz"))).status == 200

        await rig.eventually(ready)


async def test_an_api_server_that_hangs_at_the_start_is_waited_for(
    api: apiserver.ApiServer, tmp_path: Path
) -> None:
    api.answering.clear()
    gateway = rig.Gateway(tmp_path, *api.flags, environment=api.environment, readable=False)
    async with gateway:
        assert (await gateway.ask(wire.get("/readyz"))).status == 503
        api.answering.set()

        async def ready() -> bool:
            return (await gateway.ask(wire.get("/readyz"))).status == 200

        await rig.eventually(ready, within=30)


async def test_outside_a_cluster_the_reason_names_the_other_source(tmp_path: Path) -> None:
    flags = ("--replicas-from", "endpointslices")
    async with rig.Gateway(tmp_path, *flags, readable=False) as gateway:

        async def says_so() -> bool:
            answer = await gateway.ask(wire.get("/readyz"))
            return "file:PATH" in answer.error()["message"]

        await rig.eventually(says_so)


async def test_a_slow_api_server_delays_nobody_who_need_not_wait_for_it(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        api.answering.clear()
        api.end_watches()
        for _ in range(3):
            assert (await gateway.ask(CHAT, within=2)).status == 200
        api.tell()
        await asyncio.sleep(1)
        assert (await gateway.ask(CHAT, within=2)).status == 200, "nothing else is known yet"
        api.answering.set()
        await gateway.ready(0)


async def test_a_replica_that_refuses_while_the_api_server_is_away_is_waited_for(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    """Its address stays known, and its return shows by asking it."""
    engine = stubs.Engine()
    await engine.start()
    api.tell(rig.endpoint(engine.port, ready=True))
    await gateway.ready()
    await api.stop()
    await engine.stop()
    ask = asyncio.create_task(gateway.ask(CHAT))
    await gateway.until(waiting=1)
    await engine.start()
    assert (await ask).status == 200
    await engine.stop()


async def test_watches_that_end_at_once_are_asked_for_less_and_less_often(
    api: apiserver.ApiServer, gateway: rig.Gateway
) -> None:
    api.fleeting = True
    api.end_watches()
    before = api.watches
    await asyncio.sleep(6)
    assert api.watches - before <= 8, "0.2, 0.4, 0.8, 1.6 and 3.2 s apart"
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()


@pytest.mark.parametrize(
    "nonsense",
    [b"<html>", b'{"items":5}', b"[" * 100_000, b'{"kind":"Status"}', b""],
    ids=["html", "no list", "deep", "no items", "empty"],
)
async def test_an_api_server_that_talks_nonsense_changes_nothing(
    api: apiserver.ApiServer, gateway: rig.Gateway, nonsense: bytes
) -> None:
    async with stubs.Engine() as engine:
        api.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        api.nonsense = nonsense
        api.end_watches()

        async def noticed() -> bool:
            return bool(gateway.log("API server away"))

        await rig.eventually(noticed)
        assert (await gateway.ask(CHAT)).status == 200
        assert (await gateway.ask(wire.get("/readyz"))).status == 200
        api.nonsense = None
        api.tell()
        await gateway.ready(0)
