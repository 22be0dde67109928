"""LangChain's chat model for OpenAI-compatible endpoints, by its sync and its async methods."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import langchain_openai

from tests.process.clients.drivers import serving


def use(call: serving.Call) -> Iterator[str]:
    more: dict[str, Any] = {}
    if call.chunk_timeout is not None:
        more["stream_chunk_timeout"] = call.chunk_timeout
    model = langchain_openai.ChatOpenAI(
        model=call.model,
        base_url=f"{call.base}/v1",
        api_key=call.key,
        max_retries=call.retries,
        timeout=call.timeout,
        default_headers=call.headers,
        use_responses_api=call.kind == "responses",
        **more,
    )
    if call.client == "langchain-async":
        yield from _drained(model, call)
    elif call.kind == "plain":
        yield str(model.invoke(call.text).text)
    else:
        for chunk in model.stream(call.text):
            yield str(chunk.text)


# One for all calls, as a server has one: LangChain keeps its connections between models, and they
# belong to the loop that they were opened in.
_loop = asyncio.new_event_loop()


def _drained(model: Any, call: serving.Call) -> Iterator[str]:
    """The async methods, part by part."""
    parts: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()

    async def drain() -> None:
        try:
            if call.kind == "plain":
                parts.put(str((await model.ainvoke(call.text)).text))
            else:
                async for chunk in model.astream(call.text):
                    parts.put(str(chunk.text))
        except BaseException as e:  # noqa: BLE001 - handed over to the one who waits.
            parts.put(e)
        else:
            parts.put(None)

    asyncio.run_coroutine_threadsafe(drain(), _loop)
    while (part := parts.get()) is not None:
        if isinstance(part, BaseException):
            raise part
        yield part


if __name__ == "__main__":
    threading.Thread(target=_loop.run_forever, daemon=True).start()
    serving.serve(use, version=metadata.version("langchain-openai"))
