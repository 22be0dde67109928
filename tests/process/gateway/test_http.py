"""HTTP as clients send it, well and badly: what reaches the engine, and what is refused here."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.process.gateway import rig, stubs, wire

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CHAT = "/v1/chat/completions"


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path, "--max-queue", "3") as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cold(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[rig.Gateway]:
    """Shared by tests whose requests must not wake it."""
    async with rig.Gateway(tmp_path_factory.mktemp("cold")) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[rig.Gateway]:
    """Shared by tests that bring an engine of their own."""
    async with rig.Gateway(tmp_path_factory.mktemp("warm"), "--inference-path", "/own") as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def warm(shared: rig.Gateway) -> AsyncIterator[rig.Gateway]:
    yield shared
    await shared.settled()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(warm: rig.Gateway) -> AsyncIterator[stubs.Engine]:
    async with stubs.Engine() as engine:
        warm.tell(rig.endpoint(engine.port, ready=True))
        await warm.ready()
        yield engine
        warm.tell()
        await warm.ready(0)


async def test_path_and_query_reach_the_engine_byte_for_byte(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    raws = ["/v1/x%2Fy?a=%2F+b&&c", "/v1%2Fchat/completions", "/v1/a;b=c/d,e", "/own?q"]
    for raw in raws:
        assert (await warm.ask(wire.post(raw))).status == 200, raw
    assert (await warm.ask(wire.post("http://evil.test/v1/chat"))).status == 200
    assert [r.target for r in engine.received] == [*raws, "/v1/chat"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/favicon.ico",
        "//v1/chat/completions",
        "/V1/chat/completions",
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "/v1/%252e%252e/metrics",
        "/v1\\chat",
        "/v1/%00",
        "/v1/%ff",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter/",
        "/sleep",
        "/collective_rpc",
        "/scale_elastic_ep",
        "/tokenize/",
    ],
)
async def test_what_is_not_on_the_list_is_404_here_and_wakes_nothing(
    cold: rig.Gateway, path: str
) -> None:
    answer = await cold.ask(wire.post(path))
    assert answer.status == 404
    assert answer.error()["code"] == "unknown_path"
    state = await cold.queue()
    assert (state["active"], state["activation"]) == (False, None)


@pytest.mark.parametrize("path", ["/tokenize", "/invocations", "/score", "/v1/anything"])
async def test_the_engines_inference_paths_wake_it(gateway: rig.Gateway, path: str) -> None:
    async with gateway.client() as client:
        client.send(wire.post(path))
        await gateway.until(waiting=1)


async def test_other_methods_wake_nothing(cold: rig.Gateway) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "DELETE", "PUT"):
        answer = await cold.ask(wire.get("/v1/other", method=method))
        assert answer.status == 503, method
        assert answer.header("retry-after") is None
        assert answer.header("x-should-retry") == "false"
        if method != "HEAD":
            assert answer.error()["code"] == "backend_asleep"
        for path in ("/", "/favicon.ico", "/robots.txt"):
            assert (await cold.ask(wire.get(path, method=method))).status == 404, path
    assert (await cold.ask(wire.get("/v1/models"))).json() == {"object": "list", "data": []}
    assert (await cold.ask(wire.get("/v1/models", method="HEAD"))).status == 200
    state = await cold.queue()
    assert (state["active"], state["activation"]) == (False, None)


async def test_other_methods_are_told_to_come_back_while_something_starts_the_model(
    tmp_path: Path,
) -> None:
    look = wire.get("/v1/responses/x")
    async with rig.Gateway(tmp_path) as gateway:
        gateway.tell(rig.endpoint(rig.free_port()))
        await gateway.until(replicas={"ready": 0, "starting": 1, "terminating": 0})
        started_elsewhere = await gateway.ask(look)
        gateway.tell()
        await gateway.until(replicas={"ready": 0, "starting": 0, "terminating": 0})
        assert (await gateway.ask(look)).error()["code"] == "backend_asleep"
        async with gateway.client() as client:
            client.send(wire.post(CHAT))
            await gateway.until(waiting=1)
            started_here = await gateway.ask(look)
    for answer in (started_elsewhere, started_here):
        assert (answer.status, answer.error()["code"]) == (503, "backend_starting")
        assert 1 <= int(answer.header("retry-after") or 0) <= 60
        assert answer.header("x-should-retry") is None


async def test_a_model_that_always_has_a_replica_is_waited_for_by_other_methods(
    tmp_path: Path,
) -> None:
    async with rig.Gateway(tmp_path, "--min-replicas", "1") as gateway:
        assert (await gateway.ask(wire.get("/v1/other"))).error()["code"] == "backend_starting"


async def test_the_model_list_is_answered_here_only_while_cold(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--served-model", "b", "--served-model", "a") as gateway:
        listed = (await gateway.ask(wire.get("/v1/models"))).json()
        assert [(m["id"], m["object"]) for m in listed["data"]] == [("a", "model"), ("b", "model")]
        async with stubs.Engine() as engine:
            gateway.tell(rig.endpoint(engine.port, ready=True))
            await gateway.ready()
            assert (await gateway.ask(wire.get("/v1/models"))).json() == {"ok": True}
            assert not (await gateway.queue())["active"]


async def test_a_model_that_is_not_served_does_not_wake_the_one_that_is(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--served-model", "m") as gateway:
        answer = await gateway.ask(wire.post(CHAT, {"model": "M", "stream": True}))
        assert answer.status == 404
        assert answer.error()["code"] == "model_not_found"
        assert answer.error()["param"] == "model"
        form = {"content-type": "application/x-www-form-urlencoded"}
        answer = await gateway.ask(wire.post(CHAT, {"model": "M"}, headers=form))
        assert answer.error()["code"] == "model_not_found"
        assert not (await gateway.queue())["active"]
        async with gateway.client() as client:
            client.send(wire.post(CHAT, {"model": "m"}, headers=form))
            await gateway.until(waiting=1)
        await gateway.until(waiting=0)
        for body in ({"model": "m"}, {"model": ""}, {"model": None}, {}):
            async with gateway.client() as client:
                client.send(wire.post(CHAT, body))
                await gateway.until(waiting=1)
            await gateway.until(waiting=0)


@pytest.mark.parametrize(
    "body",
    [b"", b'{"model":"test-model"', b"\xff", b"[]", b'"x"', b"[" * 2000, b"[" * 200_000, b"null"],
    ids=["empty", "open", "not-utf8", "array", "string", "nested", "deeply-nested", "null"],
)
async def test_a_broken_body_is_a_400_and_wakes_nothing(cold: rig.Gateway, body: bytes) -> None:
    answer = await cold.ask(wire.post(CHAT, body))
    assert answer.status == 400
    assert answer.error()["type"] == "invalid_request_error"
    assert not (await cold.queue())["active"]
    await cold.settled()


async def test_hop_by_hop_headers_stay_behind_and_the_rest_goes_through(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    async def answer_with_headers(to: stubs.Wire, _: stubs.Received) -> None:
        headers = (
            b"server: stub\r\ndate: then\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n"
            b"connection: x-secret\r\nx-secret: 1\r\nkeep-alive: timeout=5\r\n"
        )
        await to.answer(200, b"{}", headers)

    engine.script = answer_with_headers
    headers = {
        "authorization": "Bearer sk-own",
        "connection": "keep-alive, X-Private",
        "x-private": "1",
        "te": "trailers",
        "proxy-authorization": "Basic x",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-request-id": "given-1",
    }
    answer = await warm.ask(wire.post(CHAT, headers=headers))
    received = {n.lower(): v for n, v in engine.received[0].headers}
    assert received == {
        "host": "test",
        "content-type": "application/json",
        "authorization": "Bearer sk-own",
        "traceparent": headers["traceparent"],
        "x-request-id": "given-1",
        "content-length": "2",
    }
    assert [v for n, v in answer.headers if n == "set-cookie"] == ["a=1", "b=2"]
    assert answer.header("server") == "stub"
    assert answer.header("date") == "then"
    assert answer.header("x-request-id") == "given-1"
    assert not {"x-secret", "keep-alive"} & {n for n, _ in answer.headers}


@pytest.mark.parametrize("given", ["a b", "x" * 129, "a,b", "ü"])
async def test_a_request_id_that_could_break_a_log_is_replaced(
    warm: rig.Gateway, engine: stubs.Engine, given: str
) -> None:
    answer = await warm.ask(wire.post(CHAT, headers={"x-request-id": given}))
    ours = answer.header("x-request-id")
    assert ours is not None and ours != given and len(ours) == 32
    assert engine.received[0].header("x-request-id") == ours


SMUGGLING = {
    "both framings": "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
    "equal lengths": "content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "length list": "content-length: 2, 2\r\n\r\n{}",
    "signed length": "content-length: +2\r\n\r\n{}",
    "underscored length": "content-length: 0_2\r\n\r\n{}",
    "hex length": "content-length: 0x2\r\n\r\n{}",
    "negative length": "content-length: -1\r\n\r\n{}",
    "space before colon": "content-length : 2\r\n\r\n{}",
    "obs-fold": "x-a: 1\r\n 2\r\ncontent-length: 2\r\n\r\n{}",
    "bare LF": "x-a: 1\ncontent-length: 2\r\n\r\n{}",
    "bare CR": "x-a: 1\rx-b: 2\r\ncontent-length: 2\r\n\r\n{}",
    "NUL": "x-a: \x00\r\ncontent-length: 2\r\n\r\n{}",
    "xchunked": "transfer-encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunked twice": "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "gzip, chunked": "transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "0x chunk size": "transfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "two hosts": "host: other\r\ncontent-length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("rest", SMUGGLING.values(), ids=SMUGGLING)
async def test_ambiguous_requests_are_refused_in_json_and_never_forwarded(
    warm: rig.Gateway, engine: stubs.Engine, rest: str
) -> None:
    answer = await warm.ask(f"POST {CHAT} HTTP/1.1\r\nhost: t\r\n{rest}".encode())
    assert answer.status in (400, 501)
    answer.error()
    assert not engine.received


ENDLESS = "x" * 100_000


@pytest.mark.parametrize(
    "data",
    [
        f"POST {CHAT}?{ENDLESS} HTTP/1.1\r\nhost: t\r\n\r\n",
        f"POST {CHAT} HTTP/1.1\r\nhost: t\r\nx-a: {ENDLESS}\r\n\r\n",
        f"POST {CHAT} HTTP/1.1\r\nhost: t\r\n{ENDLESS}: a\r\n\r\n",
    ],
    ids=["target", "value", "name"],
)
async def test_an_endless_line_in_a_head_is_a_431(
    warm: rig.Gateway, engine: stubs.Engine, data: str
) -> None:
    answer = await warm.ask(data.encode())
    assert answer.status == 431
    assert "8190 bytes" in answer.error()["message"]
    assert (await warm.last_request())["status"] == 431
    assert not engine.received


@pytest.mark.parametrize(("version", "status"), [("2.0", 505), ("0.9", 400)])
@pytest.mark.parametrize("path", [CHAT, "/metrics"])
async def test_other_versions_of_http_are_refused_in_words(
    warm: rig.Gateway, engine: stubs.Engine, path: str, version: str, status: int
) -> None:
    """The parser takes their request lines, but means another framing by them."""
    answer = await warm.ask(wire.get(path).replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
    assert answer.status == status
    answer.error()
    assert answer.header("connection") == "close"
    assert not engine.received


async def test_chunked_in_http_1_0_is_refused(warm: rig.Gateway, engine: stubs.Engine) -> None:
    answer = await warm.ask(
        f"POST {CHAT} HTTP/1.0\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".encode()
    )
    assert answer.status == 400
    assert not engine.received


async def test_an_http_1_0_client_gets_a_body_that_ends_with_its_connection(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    engine.script = stubs.stream
    answer = await warm.ask(
        f"POST {CHAT} HTTP/1.0\r\nhost: t\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    )
    assert answer.header("transfer-encoding") is None
    assert answer.body == stubs.CHUNK_1 + stubs.CHUNK_2 + stubs.DONE


async def test_a_websocket_upgrade_is_refused_in_words(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    answer = await warm.ask(wire.get("/v1/realtime", headers=headers))
    assert answer.status == 501
    assert answer.header("x-should-retry") == "false"
    answer.error()
    assert not engine.received


async def test_a_trailer_of_the_engines_stays_behind(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    async def with_trailer(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD + b"2\r\nhi\r\n0\r\nx-trailer: 1\r\n\r\n")

    engine.script = with_trailer
    for _ in range(3):
        answer = await warm.ask(wire.post(CHAT))
        assert (answer.complete, answer.body) == (True, b"hi")
        # Not even where it came along with the head.
        assert answer.header("x-trailer") is None


async def test_head_and_options_pass_through(warm: rig.Gateway, engine: stubs.Engine) -> None:
    async def describe(to: stubs.Wire, received: stubs.Received) -> None:
        body = b"" if received.method == "HEAD" else b"ok"
        await to.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nallow: GET\r\n\r\n" + body)

    engine.script = describe
    for method, body in (("HEAD", b""), ("OPTIONS", b"ok"), ("HEAD", b"")):
        answer = await warm.ask(wire.get("/v1/models", method=method))
        assert (answer.status, answer.body, answer.header("allow")) == (200, body, "GET")
        assert answer.header("content-length") == "2"


async def test_one_connection_carries_many_requests_pipelined_ones_too(
    warm: rig.Gateway, engine: stubs.Engine
) -> None:
    async with warm.client() as client:
        for _ in range(3):
            assert (await client.ask(wire.post(CHAT))).status == 200
        client.send(wire.post(CHAT) + wire.post("/nope") + wire.post(CHAT))
        assert [(await client.response()).status for _ in range(3)] == [200, 404, 200]
    assert len(engine.received) == 5


async def test_many_requests_at_once_never_mix_their_answers(tmp_path: Path) -> None:
    async def echo(to: stubs.Wire, received: stubs.Received) -> None:
        await to.answer(200, received.body)

    async def ask_often(port: int, who: int) -> None:
        async with wire.Client(port) as client:
            for turn in range(40):
                body = json.dumps({"who": who, "turn": turn, "pad": "x" * (turn * 50)}).encode()
                assert (await client.ask(wire.post(CHAT, body))).body == body

    async with rig.Gateway(tmp_path) as gateway, stubs.Engine(echo) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        await asyncio.gather(*(ask_often(gateway.port, who) for who in range(24)))
        await gateway.settled()


async def test_the_own_endpoints_answer_get_and_head_only(cold: rig.Gateway) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/noctaya/queue"):
        assert (await cold.ask(wire.get(path))).status == 200
        assert (await cold.ask(wire.get(path, method="HEAD"))).body == b""
        answer = await cold.ask(wire.post(path))
        assert answer.status == 405
        answer.error()
