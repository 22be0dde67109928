"""openai-python, whatever its major version: their users write the same lines."""

from collections.abc import Iterator
from importlib import metadata

import openai

from tests.process.clients.drivers import serving


def use(call: serving.Call) -> Iterator[str]:
    with openai.OpenAI(
        base_url=f"{call.base}/v1",
        api_key=call.key,
        max_retries=call.retries,
        timeout=openai.NOT_GIVEN if call.timeout is None else call.timeout,
        default_headers=call.headers,
    ) as client:
        if call.kind == "plain":
            answer = client.chat.completions.create(model=call.model, messages=call.messages)
            yield answer.choices[0].message.content or ""
        elif call.kind == "stream":
            for chunk in client.chat.completions.create(
                model=call.model, messages=call.messages, stream=True
            ):
                yield chunk.choices[0].delta.content or ""
        else:
            for event in client.responses.create(model=call.model, input=call.text, stream=True):
                if event.type == "response.output_text.delta":
                    yield event.delta


if __name__ == "__main__":
    serving.serve(use, version=metadata.version("openai"))
