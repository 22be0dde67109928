"""anthropic-python, for engines that speak its dialect at ``/v1/messages``."""

from collections.abc import Iterator
from importlib import metadata

import anthropic

from tests.process.clients.drivers import serving


def use(call: serving.Call) -> Iterator[str]:
    with anthropic.Anthropic(
        base_url=call.base,
        auth_token=call.key,
        max_retries=call.retries,
        timeout=anthropic.NOT_GIVEN if call.timeout is None else call.timeout,
        default_headers=call.headers,
    ) as client:
        for event in client.messages.create(
            model=call.model, messages=call.messages, max_tokens=16, stream=True
        ):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield event.delta.text


if __name__ == "__main__":
    serving.serve(use, version=metadata.version("anthropic"))
