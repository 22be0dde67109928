"""What the gateway says of itself: metrics, one line per request, and ids that go through."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from gateway.signals import PHASES
from tests.process.gateway import keda, rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
SERIES = re.compile(r"^(noctaya_\w+(?:\{[^}]*\})?) \S+$", re.MULTILINE)


async def exposed(gateway: rig.Gateway) -> list[str]:
    """Every series, with its labels."""
    return SERIES.findall((await gateway.ask(wire.get("/metrics"))).body.decode())


async def served_cold(gateway: rig.Gateway, request: bytes) -> None:
    async with stubs.Engine() as engine:
        ask = asyncio.create_task(gateway.ask(request))
        await gateway.until(waiting=1)
        gateway.tell(rig.endpoint(engine.port))
        assert (await ask).status == 200
        gateway.tell()
        await gateway.ready(0)


async def test_every_phase_of_a_cold_start_is_a_histogram_to_thirty_minutes(
    tmp_path: Path,
) -> None:
    async with rig.Gateway(tmp_path) as gateway, keda.calls(gateway.scaler_port) as stub:
        pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
        await pushes.until(1)
        await served_cold(gateway, wire.post(CHAT, {"model": "m"}))
        series = await exposed(gateway)
        for phase in PHASES:
            for edge in ("0.5", "60", "1800", "+Inf"):
                labels = f'{{le="{edge}",phase="{phase}"}}'
                assert f"noctaya_activation_phase_seconds_bucket{labels}" in series
            count = f'noctaya_activation_phase_seconds_count{{phase="{phase}"}}'
            assert await gateway.metric(count) == 1, phase
        assert await gateway.metric('noctaya_activation_seconds_bucket{le="1800"}') == 1
        await pushes.cancel()


async def test_what_is_counted_and_what_is_held_is_on_the_metrics_page(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway:
        async with gateway.client() as client:
            client.send(wire.post(CHAT, {"stream": True, "pad": "x" * 1000}))
            await gateway.until(waiting=1)
            await client.head()
            for name in ("waiting", "demand", "admitted", "active"):
                assert await gateway.metric(f"noctaya_{name}") == 1, name
            assert await gateway.metric("noctaya_held_bytes") > 1000
            assert await gateway.metric("noctaya_heartbeats_total") >= 1
        await gateway.until(waiting=0)
        await served_cold(gateway, wire.post(CHAT))
        for outcome, status in (("abandoned", "200"), ("served", "200")):
            labels = f'{{outcome="{outcome}",status="{status}"}}'
            assert await gateway.metric(f"noctaya_requests_total{labels}") == 1
        assert await gateway.metric('noctaya_activations_total{result="ready"}') == 1


async def test_no_client_and_no_engine_can_make_more_series(tmp_path: Path) -> None:
    """Whatever they say, labels come from closed lists."""

    async def any_status(to: stubs.Wire, _: stubs.Received) -> None:
        await to.answer(600 + len(engine.received), b"{}")

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(any_status) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as client:
            await client.ask(wire.post("/v1/0", {"model": "m-0"}))
            await client.ask(wire.post("/nowhere-0"))
            before = await exposed(gateway)
            for n in range(1, 60):
                headers = {"x-request-id": f"id-{n}", "user-agent": f"agent-{n}"}
                asked = wire.post(f"/v1/{n}?{n}", {"model": f"m-{n}"}, headers=headers)
                assert (await client.ask(asked)).status == 600 + n + 1
                assert (await client.ask(wire.post(f"/nowhere-{n}"))).status == 404
        assert await exposed(gateway) == before
        odd = 'noctaya_requests_total{outcome="served",status="other"}'
        assert await gateway.metric(odd) == 60


@pytest.mark.parametrize("cold", [True, False], ids=["held", "warm"])
async def test_ids_and_traces_go_through_and_come_back(tmp_path: Path, cold: bool) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"x-request-id": "given-1", "traceparent": trace, "tracestate": "a=1,b=2"}
    request = wire.post(CHAT, {"model": "m"}, headers=headers)
    async with rig.Gateway(tmp_path) as gateway, stubs.Engine() as engine:
        if not cold:
            gateway.tell(rig.endpoint(engine.port, ready=True))
            await gateway.ready()
        ask = asyncio.create_task(gateway.ask(request))
        if cold:
            await gateway.until(waiting=1)
            gateway.tell(rig.endpoint(engine.port))
        assert (await ask).header("x-request-id") == "given-1"
        for name, value in headers.items():
            assert engine.received[0].header(name) == value
        assert (await gateway.last_request())["request_id"] == "given-1"


async def test_every_request_is_one_line_whatever_becomes_of_it(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--max-queue", "1") as gateway, stubs.Engine() as engine:
        asked = {
            "a": (wire.post("/nowhere", headers={"x-request-id": "a"}), "no_route"),
            "b": (wire.post(CHAT, b"{", headers={"x-request-id": "b"}), "invalid"),
            "c": (wire.get("/v1/x", headers={"x-request-id": "c"}), "cold"),
        }
        for request, _ in asked.values():
            await gateway.ask(request)
        async with gateway.client() as client:
            client.send(wire.post(CHAT, headers={"x-request-id": "d"}))
            await gateway.until(waiting=1)
            full = wire.post(CHAT, headers={"x-request-id": "e"})
            assert (await gateway.ask(full)).status == 429
        await gateway.until(waiting=0)
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        await gateway.ask(wire.post('/v1/"odd"?key=sk-secret', headers={"x-request-id": "f"}))
        await gateway.last_request()
        lines = {line["request_id"]: line for line in gateway.log("request")}
        outcomes = {name: line["outcome"] for name, line in lines.items()}
        expected = {name: outcome for name, (_, outcome) in asked.items()}
        assert outcomes == expected | {"d": "abandoned", "e": "queue_full", "f": "served"}
        assert len(gateway.log("request")) == len(lines) == 6
        assert lines["f"]["path"] == '/v1/"odd"'
        assert "sk-secret" not in gateway.log_text()
        for line in lines.values():
            assert line.keys() >= {"ts", "level", "method", "path", "status", "duration"}


async def test_the_queue_page_is_for_people_and_scripts(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path) as gateway, gateway.client() as client:
        idle = await gateway.queue()
        assert json.loads(json.dumps(idle)) == {
            "service": "m",
            "namespace": "ns",
            "demand": 0,
            "waiting": 0,
            "inFlight": 0,
            "active": False,
            "replicas": {"ready": 0, "starting": 0, "terminating": 0},
            "activation": None,
            "scalerConnected": False,
        }
        client.send(wire.post(CHAT))
        state = await gateway.until(waiting=1)
        assert state["activation"].keys() == {"began", "seconds", "signalled", "starting"}
        assert state["activation"]["starting"] is None
