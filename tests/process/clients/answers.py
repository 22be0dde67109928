"""What engines answer, proper and not, in the dialect of the endpoint that was asked.

An answer is the text ``one two``; a stream has a word in each event.
"""

import asyncio
import json
from typing import Any

from tests.process.gateway import stubs

WORDS = ("one ", "two")
TEXT = "".join(WORDS)
_ABOUT = {"id": "x", "created": 1, "model": "m"}
_RESPONSE: dict[str, Any] = {
    "id": "x",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "in_progress",
    "output": [],
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
}


def _data(said: object, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(said)}\n\n".encode()


def _delta(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({**_ABOUT, "object": "chat.completion.chunk", "choices": [choice]})


def _typed(kind: str, **facts: Any) -> bytes:
    return _data({"type": kind, **facts}, kind)


def _completions() -> list[bytes]:
    words = [_delta({"role": "assistant", "content": word}) for word in WORDS]
    return [*words, _delta({}, "stop"), b"data: [DONE]\n\n"]


def _responses() -> list[bytes]:
    at = {"item_id": "i", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
    done = _RESPONSE | {"status": "completed", "output": [item | {"content": [part]}]}
    return [
        _typed("response.created", sequence_number=0, response=_RESPONSE),
        *(
            _typed("response.output_text.delta", sequence_number=n, delta=word, logprobs=[], **at)
            for n, word in enumerate(WORDS, 1)
        ),
        _typed("response.completed", sequence_number=9, response=done),
    ]


def _messages() -> list[bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    block = {"type": "text", "text": ""}
    return [
        _typed("message_start", message=message),
        _typed("content_block_start", index=0, content_block=block),
        *(
            _typed("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            for word in WORDS
        ),
        _typed("content_block_stop", index=0),
        _typed(
            "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=usage
        ),
        _typed("message_stop"),
    ]


_EVENTS = {
    "/v1/chat/completions": _completions(),
    "/v1/responses": _responses(),
    "/v1/messages": _messages(),
}
_MESSAGE = {"role": "assistant", "content": TEXT}
_WHOLE = json.dumps(
    {
        **_ABOUT,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", "message": _MESSAGE}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
).encode()
# Bytes as vLLM words them: its codes are numbers.
_TOO_LONG = (
    b'{"error":{"message":"too long for me","type":"BadRequestError","param":null,"code":400}}'
)
_BROKEN = b'{"error":{"message":"it broke","type":"InternalServerError","param":null,"code":500}}'


def _first_word(events: list[bytes]) -> int:
    return next(n for n, event in enumerate(events) if WORDS[0].encode() in event)


async def proper(to: stubs.Wire, received: stubs.Received) -> None:
    if json.loads(received.body).get("stream") is not True:
        await to.answer(200, _WHOLE)
        return
    await to.write(stubs.STREAM_HEAD)
    for event in (*_EVENTS[received.target], b""):
        await to.chunk(event)


async def _begin(to: stubs.Wire, received: stubs.Received) -> bytes:
    """Stream up to the first word, until its reader has it; returns the event of the second."""
    events = _EVENTS[received.target]
    word = _first_word(events)
    await to.write(stubs.STREAM_HEAD)
    for event in events[: word + 1]:
        await to.chunk(event)
    # A reset overtakes what was not read yet.
    await asyncio.sleep(0.3)
    return events[word + 1]


async def dies_between_events(to: stubs.Wire, received: stubs.Received) -> None:
    await _begin(to, received)
    to.reset()


async def dies_within_an_event(to: stubs.Wire, received: stubs.Received) -> None:
    event = await _begin(to, received)
    await to.chunk(event[: len(event) // 2])
    await asyncio.sleep(0.3)
    to.reset()


async def goes_on_for_long(to: stubs.Wire, received: stubs.Received) -> None:
    await _begin(to, received)
    await to.left()


async def cut_short(to: stubs.Wire, _: stubs.Received) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    await to.write(head + b"content-length: %d\r\n\r\n%b" % (len(_WHOLE), _WHOLE[:-20]))
    to.reset()


async def dies_at_once(to: stubs.Wire, _: stubs.Received) -> None:
    to.reset()


async def says_nothing(to: stubs.Wire, _: stubs.Received) -> None:
    await to.left()


async def says_400(to: stubs.Wire, _: stubs.Received) -> None:
    await to.answer(400, _TOO_LONG)


async def says_500(to: stubs.Wire, _: stubs.Received) -> None:
    await to.answer(500, _BROKEN)
