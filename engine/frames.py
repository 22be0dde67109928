"""Answers as vLLM words them: whole bodies, and the events of a stream.

Whole: ``chat.completion`` and ``text_completion``. Streamed: the role and the first token leave
together (headers long before), then one event a token, a last one with ``finish_reason``, usage
where it was asked for, ``[DONE]``.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine import echo
from engine.asks import Ask

# Says what answered, in every answer.
FINGERPRINT = "noctaya-echo"

DONE = b"data: [DONE]\n\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """What all parts of one answer share."""

    id: str
    created: int
    ask: Ask

    def fields(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.ask.model}


def usage(ask: Ask, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": ask.prompt_tokens,
        "total_tokens": ask.prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def whole(head: Head, choices: Sequence[echo.Generation]) -> dict[str, Any]:
    chat = head.ask.chat
    return {
        **head.fields("chat.completion" if chat else "text_completion"),
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {
                "index": index,
                **(
                    {"message": {"role": "assistant", "content": choice.text}}
                    if chat
                    else {"text": choice.text}
                ),
                "logprobs": None,
                "finish_reason": choice.finish,
                "stop_reason": choice.stop_reason,
            }
            for index, choice in enumerate(choices)
        ],
        "usage": usage(head.ask, sum(len(choice.tokens) for choice in choices)),
    }


class Stream:
    """The events of one streamed answer; it counts the tokens it has put into events."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._kind = "chat.completion.chunk" if head.ask.chat else "text_completion"
        self._sent = 0

    def step(self, choices: Sequence[echo.Generation], step: int) -> list[bytes]:
        """What one step of all choices sends; the role leaves together with the first token."""
        events = []
        if step == 0 and self._head.ask.chat:
            role = {"delta": {"role": "assistant", "content": ""}}
            events += [self._event(index, role) for index in range(len(choices))]
        for index, choice in enumerate(choices):
            if step < len(choice.tokens):
                self._sent += 1
                events.append(self._event(index, self._piece(choice.tokens[step])))
            if step == choice.steps - 1:
                events.append(self._finish(index, choice))
        return events

    def closing(self, choices: Sequence[echo.Generation]) -> list[bytes]:
        """The finish of choices that were aborted, usage where it was asked for, the end."""
        events = [
            self._finish(index, choice)
            for index, choice in enumerate(choices)
            if choice.finish == "abort"
        ]
        if self._head.ask.include_usage:
            usage_chunk = {
                **self._head.fields(self._kind),
                "choices": [],
                "system_fingerprint": FINGERPRINT,
                "usage": usage(self._head.ask, self._sent),
            }
            events.append(_data(usage_chunk))
        return [*events, DONE]

    def _finish(self, index: int, choice: echo.Generation) -> bytes:
        end = {"finish_reason": choice.finish, "stop_reason": choice.stop_reason}
        return self._event(index, {**self._piece(""), **end}, last=True)

    def _piece(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}} if self._head.ask.chat else {"text": text}

    def _event(self, index: int, piece: Mapping[str, Any], *, last: bool = False) -> bytes:
        choice = {"index": index, "logprobs": None, "finish_reason": None, **piece}
        chunk = {**self._head.fields(self._kind), "choices": [choice]}
        if last:
            chunk["system_fingerprint"] = FINGERPRINT
        if self._head.ask.continuous_usage:
            chunk["usage"] = usage(self._head.ask, self._sent)
        return _data(chunk)


def _data(chunk: Mapping[str, Any]) -> bytes:
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()
