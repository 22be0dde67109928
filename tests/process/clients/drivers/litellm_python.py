"""LiteLLM as a library, told that the endpoint is OpenAI-compatible."""

import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

# It would fetch a list of prices from the Internet while it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from tests.process.clients.drivers import serving


def use(call: serving.Call) -> Iterator[str]:
    given: dict[str, Any] = {
        "model": f"openai/{call.model}",
        "api_base": f"{call.base}/v1",
        "api_key": call.key,
        "max_retries": call.retries,
        "timeout": call.timeout,
        "extra_headers": call.headers,
    }
    if call.kind == "plain":
        answer = litellm.completion(messages=call.messages, **given)
        yield answer.choices[0].message.content or ""
    elif call.kind == "stream":
        for chunk in litellm.completion(messages=call.messages, stream=True, **given):
            yield chunk.choices[0].delta.content or ""
    else:
        for event in litellm.responses(input=call.text, stream=True, **given):
            if event.type == "response.output_text.delta":
                yield event.delta


if __name__ == "__main__":
    serving.serve(use, version=metadata.version("litellm"))
