"""The HTTP side: routes, the paced answers, errors in vLLM's shape."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from aiohttp import web

from engine import asks, echo, errors, frames
from engine.config import Config
from engine.state import Engine, note

MAX_BODY_BYTES = 64 * 1024 * 1024

ENGINE = web.AppKey("engine", Engine)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_app(engine: Engine) -> web.Application:
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[refusals])
    app[ENGINE] = engine
    app.router.add_get("/health", health, allow_head=False)
    app.router.add_get("/metrics", metrics, allow_head=False)
    app.router.add_get("/v1/models", models, allow_head=False)
    app.router.add_post("/v1/chat/completions", chat_completions)
    app.router.add_post("/v1/completions", completions)
    app.router.add_post("/debug/crash", crash)
    return app


@web.middleware
async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors as vLLM words them: its own in its shape, the framework's as ``{"detail"}``."""
    try:
        return await handler(request)
    except errors.Refusal as e:
        return web.json_response(e.body(), status=e.status)
    except web.HTTPError as e:
        headers = {"Allow": e.headers["Allow"]} if "Allow" in e.headers else {}
        return web.json_response({"detail": e.reason}, status=e.status, headers=headers)


async def health(request: web.Request) -> web.Response:
    request.app[ENGINE].answered_healthy()
    return web.Response()


async def metrics(request: web.Request) -> web.Response:
    body = request.app[ENGINE].exposition().encode()
    content_type = "text/plain; version=1.0.0; charset=utf-8"
    return web.Response(body=body, headers={"Content-Type": content_type})


async def models(request: web.Request) -> web.Response:
    config = request.app[ENGINE].config
    cards = [
        {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": frames.FINGERPRINT,
            "root": config.model,
            "parent": None,
            "max_model_len": config.max_model_len,
        }
        for name in config.served_names
    ]
    return web.json_response({"object": "list", "data": cards})


async def crash(request: web.Request) -> web.Response:
    """End at once, as a killed process does: streams break off without their last chunk."""
    code = request.app[ENGINE].config.crash_exit_code
    note("crashing", exit_code=code, reason="asked by POST /debug/crash")
    os._exit(code)


async def chat_completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, asks.chat, "chatcmpl")


async def completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, asks.completion, "cmpl")


async def _generate(
    request: web.Request, parse: Callable[[asks.Body, Config], asks.Ask], prefix: str
) -> web.StreamResponse:
    engine = request.app[ENGINE]
    if engine.stopping:
        raise errors.shutting_down()
    ask = parse(asks.load(await request.read(), request.content_type), engine.config)
    # A client's own id becomes the answer's, so that one id follows a request end to end.
    request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex
    head = frames.Head(id=f"{prefix}-{request_id}", created=int(time.time()), ask=ask)
    each = [echo.generate(prompt, ask.limits) for prompt in ask.prompts]
    choices = [choice for choice in each for _ in range(ask.n)]
    if ask.stream:
        return await _stream(request, engine, head, choices)
    steps = 0
    async with engine.turn():
        async for step in _steps(engine, choices):
            steps = step + 1
    return web.json_response(frames.whole(head, [choice.after(steps) for choice in choices]))


async def _stream(
    request: web.Request, engine: Engine, head: frames.Head, choices: Sequence[echo.Generation]
) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    response.enable_chunked_encoding()
    # The headers leave now, before the first token and even before a seat is free.
    await response.prepare(request)
    stream = frames.Stream(head)
    steps = 0
    async with engine.turn():
        async for step in _steps(engine, choices):
            for event in stream.step(choices, step):
                await response.write(event)
            steps = step + 1
        for event in stream.closing([choice.after(steps) for choice in choices]):
            await response.write(event)
    await response.write_eof()
    return response


async def _steps(engine: Engine, choices: Sequence[echo.Generation]) -> AsyncIterator[int]:
    """Each step's number when its time has come; they end early where the engine aborts.

    Times count from the first step, so a slow write does not slow the tokens after it.
    """
    config = engine.config
    first = asyncio.get_running_loop().time() + config.time_to_first_token_seconds
    interval = 1 / config.tokens_per_second if config.tokens_per_second else 0.0
    for step in range(max(choice.steps for choice in choices)):
        await engine.pause(first + step * interval)
        if engine.aborting.is_set():
            return
        yield step
