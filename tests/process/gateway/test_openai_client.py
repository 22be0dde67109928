"""What a user of the openai package sees, retries included."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
CHUNK = (
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
)
COMPLETION = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}'
)


async def engine_like(to: stubs.Wire, received: stubs.Received) -> None:
    if b'"stream":true' not in received.body.replace(b" ", b""):
        await to.answer(200, COMPLETION)
        return
    await to.write(stubs.STREAM_HEAD)
    for chunk in (CHUNK, CHUNK, stubs.DONE, b""):
        await to.chunk(chunk)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path) as gateway:
        yield gateway


@pytest.fixture
async def in_vain(tmp_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client whose model never starts."""
    flags = ("--activation-timeout-seconds", "2")
    async with rig.Gateway(tmp_path, *flags) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="sk-x", max_retries=0) as client:
            yield client


@pytest.fixture
async def client(gateway: rig.Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"http://127.0.0.1:{gateway.port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-x", max_retries=0) as client:
        yield client


async def collect(client: openai.AsyncOpenAI) -> list[ChatCompletionChunk]:
    stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
    return [chunk async for chunk in stream]


async def test_a_cold_stream_arrives_behind_its_heartbeats(
    gateway: rig.Gateway, client: openai.AsyncOpenAI
) -> None:
    ask = asyncio.create_task(collect(client))
    await gateway.until(waiting=1)
    await asyncio.sleep(0.5)
    async with stubs.Engine(engine_like) as engine:
        gateway.tell(rig.endpoint(engine.port))
        chunks = await ask
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["hi", "hi"]
    assert engine.received[0].header("authorization") == "Bearer sk-x"


async def test_a_cold_plain_request_is_held(
    gateway: rig.Gateway, client: openai.AsyncOpenAI
) -> None:
    ask = asyncio.create_task(client.chat.completions.create(model="m", messages=HELLO))
    await gateway.until(waiting=1)
    async with stubs.Engine(engine_like) as engine:
        gateway.tell(rig.endpoint(engine.port))
        assert (await ask).choices[0].message.content == "hi"


async def test_a_failure_after_the_200_is_an_api_error(in_vain: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIError) as caught:
        await collect(in_vain)
    assert caught.value.code == "activation_timeout"
    assert "did not start" in caught.value.message


async def test_a_responses_stream_that_fails_after_the_200_is_an_api_error(
    in_vain: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.APIError) as caught:
        async for _ in await in_vain.responses.create(model="m", input="hello", stream=True):
            pass
    assert caught.value.code == "activation_timeout"


async def test_a_stream_that_dies_on_the_way_is_an_api_error(
    gateway: rig.Gateway, client: openai.AsyncOpenAI
) -> None:
    async def die(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(CHUNK)
        await asyncio.sleep(0.05)
        to.reset()

    async with stubs.Engine(die) as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        with pytest.raises(openai.APIError) as caught:
            await collect(client)
    assert caught.value.code == "upstream_error"


async def test_errors_before_the_200_are_typed_and_carry_their_request_id(tmp_path: Path) -> None:
    flags = ("--served-model", "m", "--max-queue", "1")
    async with rig.Gateway(tmp_path, *flags) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError) as not_found:
                await client.chat.completions.create(model="no", messages=HELLO)
            assert not_found.value.code == "model_not_found"
            assert not_found.value.request_id
            async with gateway.client() as holder:
                holder.send(wire.post("/v1/chat/completions"))
                await gateway.until(waiting=1)
                with pytest.raises(openai.RateLimitError) as full:
                    await client.chat.completions.create(model="m", messages=HELLO)
                assert full.value.type == "requests"


async def test_a_lookup_that_cannot_wake_the_model_is_not_asked_again(
    gateway: rig.Gateway, client: openai.AsyncOpenAI
) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        await client.with_options(max_retries=2).models.retrieve("m")
    assert (caught.value.status_code, caught.value.code) == (503, "backend_asleep")
    assert "asleep" in caught.value.message
    assert len(gateway.log("request")) == 1


async def test_a_retrying_client_outlasts_reject_mode(tmp_path: Path) -> None:
    flags = ("--cold-start", "reject", "--startup-budget-seconds", "2")
    async with rig.Gateway(tmp_path, *flags) as gateway, stubs.Engine(engine_like) as engine:
        url = f"http://127.0.0.1:{gateway.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=5) as client:
            ask = asyncio.create_task(client.chat.completions.create(model="m", messages=HELLO))

            async def refused() -> bool:
                return bool(gateway.log("request"))

            await rig.eventually(refused)
            gateway.tell(rig.endpoint(engine.port))
            assert (await ask).choices[0].message.content == "hi"


async def test_an_answer_that_is_no_stream_after_the_200_is_an_api_error(
    gateway: rig.Gateway, client: openai.AsyncOpenAI
) -> None:
    """An engine's 400 as a bare body would pass for an empty success."""

    async def refuse(to: stubs.Wire, _: stubs.Received) -> None:
        body = b'{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}'
        await to.answer(400, body)

    ask = asyncio.create_task(collect(client))
    await gateway.until(waiting=1)
    await asyncio.sleep(0.5)
    async with stubs.Engine(refuse) as engine:
        gateway.tell(rig.endpoint(engine.port))
        with pytest.raises(openai.APIError, match="too long"):
            await ask


async def test_data_heartbeats_are_chunks_that_naive_code_can_read(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--data-heartbeats") as gateway:
        url = f"http://127.0.0.1:{gateway.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
            ask = asyncio.create_task(collect(client))
            await gateway.until(waiting=1)
            await asyncio.sleep(0.5)
            async with stubs.Engine(engine_like) as engine:
                gateway.tell(rig.endpoint(engine.port))
                chunks = await ask
    texts = [chunk.choices[0].delta.content for chunk in chunks]
    assert len(texts) > 2
    assert "".join(text or "" for text in texts) == "hihi"
