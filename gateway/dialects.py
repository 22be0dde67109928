"""Server-sent events that the gateway itself puts into a stream, in the endpoint's own dialect."""

import enum
import json

from gateway.errors import Refusal
from gateway.outcomes import Outcome

# A comment, which every parser skips. Anything else (id, retry, an event without data) breaks at
# least one SDK; it is also the text that vLLM sends.
HEARTBEAT = b": keep-alive\n\n"
_BOUNDARIES = (b"\n\n", b"\r\n\r\n", b"\r\r")
BOUNDARY_LENGTH = 4


class Dialect(enum.Enum):
    COMPLETIONS = enum.auto()
    RESPONSES = enum.auto()
    MESSAGES = enum.auto()


_BY_PATH = {
    "/v1/chat/completions": Dialect.COMPLETIONS,
    "/v1/completions": Dialect.COMPLETIONS,
    "/invocations": Dialect.COMPLETIONS,
    "/v1/responses": Dialect.RESPONSES,
    "/v1/messages": Dialect.MESSAGES,
}
# What Anthropic's clients know, by the status that the error would have had.
_MESSAGES_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def streaming(path: str) -> Dialect | None:
    """The dialect of an endpoint that streams events when it is asked to; None for any other."""
    return _BY_PATH.get(path)


def data_heartbeat(path: str, model: str | None) -> bytes:
    """A heartbeat that SDKs hand to their users: a chunk with an empty delta.

    For clients that give up between parsed chunks, whatever comments arrive. Where the dialect
    knows no such thing it is the comment.
    """
    chunk: dict[str, object] = {"id": "heartbeat", "created": 0, "model": model or ""}
    if path == "/v1/chat/completions":
        delta = {"role": "assistant", "content": ""}
        choice: dict[str, object] = {"index": 0, "delta": delta, "finish_reason": None}
        return _data(chunk | {"object": "chat.completion.chunk", "choices": [choice]})
    if path == "/v1/completions":
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": None}
        return _data(chunk | {"object": "text_completion", "choices": [choice]})
    if path == "/v1/messages":
        return b"event: ping\n" + _data({"type": "ping"})
    return HEARTBEAT


def error_event(dialect: Dialect, error: Refusal) -> bytes:
    """What ends a stream that cannot go on: an event that SDKs raise, and the dialect's end."""
    detail = error.detail()
    if dialect is Dialect.COMPLETIONS:
        return _data({"error": detail}) + b"data: [DONE]\n\n"
    if dialect is Dialect.RESPONSES:
        # The flat fields are the dialect's own; OpenAI's SDKs raise only on an ``error`` object.
        event = {"type": "error", "sequence_number": 0, "error": detail}
        event |= {key: detail[key] for key in ("code", "message", "param")}
        return b"event: error\n" + _data(event)
    known = _MESSAGES_TYPES.get(error.status, "api_error")
    event = {"type": "error", "error": {"type": known, "message": error.message}}
    return b"event: error\n" + _data(event)


def unwrap(status: int, body: bytes) -> Refusal:
    """An engine's answer that is no stream, as the error that a stream can carry.

    Engines say ``{"error": {...}}``, ``{"error": "text"}`` or ``{"detail": ...}``.
    """
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    detail = parsed.get("error", parsed.get("detail")) if isinstance(parsed, dict) else None
    if not isinstance(detail, dict):
        detail = {"message": detail} if isinstance(detail, str) else {}
    code = detail.get("code")
    message = detail.get("message")
    return Refusal(
        status if status >= 400 else 502,
        str(code) if code is not None else None,
        str(message) if message else f"the engine answered {status} instead of a stream",
        # An engine's 4xx is the client's answer, however it is wrapped.
        outcome=Outcome.SERVED if 400 <= status < 500 else Outcome.UPSTREAM_ERROR,
        kind=str(detail.get("type") or "server_error"),
        param=str(detail["param"]) if detail.get("param") is not None else None,
    )


def at_boundary(tail: bytes) -> bool:
    """Whether a stream whose last bytes are ``tail`` stands between two events."""
    return tail.endswith(_BOUNDARIES)


def _data(payload: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"
