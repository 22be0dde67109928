import json

import pytest

from gateway import dialects
from gateway.dialects import Dialect
from gateway.errors import Refusal
from gateway.outcomes import Outcome

ERROR = Refusal(503, "activation_timeout", "it did not start", outcome=Outcome.ACTIVATION_TIMEOUT)
DETAIL = {
    "message": "it did not start",
    "type": "server_error",
    "param": None,
    "code": "activation_timeout",
}


def events(raw: bytes) -> list[dict[str, str]]:
    """Fields of each event, as any SSE parser would find them."""
    *blocks, rest = raw.decode().split("\n\n")
    assert rest == ""
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def test_chat_and_completions_get_an_error_object_and_the_end() -> None:
    error, done = events(dialects.error_event(Dialect.COMPLETIONS, ERROR))
    assert error.keys() == {"data"}, "an event's name would make some SDKs yield it as a chunk"
    assert json.loads(error["data"]) == {"error": DETAIL}
    assert done == {"data": "[DONE]"}


def test_responses_get_their_own_error_event_which_openai_sdks_raise_too() -> None:
    (error,) = events(dialects.error_event(Dialect.RESPONSES, ERROR))
    data = json.loads(error["data"])
    assert error["event"] == data["type"] == "error"
    assert data["error"] == DETAIL
    assert (data["message"], data["code"]) == (DETAIL["message"], DETAIL["code"])


def test_messages_get_anthropics_error_event() -> None:
    (error,) = events(dialects.error_event(Dialect.MESSAGES, ERROR))
    assert error["event"] == "error"
    assert json.loads(error["data"]) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "it did not start"},
    }


def test_a_heartbeat_is_a_comment() -> None:
    assert dialects.HEARTBEAT.startswith(b":")
    assert dialects.at_boundary(dialects.HEARTBEAT)


@pytest.mark.parametrize(
    ("tail", "between"),
    [
        (b"x\n\n", True),
        (b"x\r\n\r\n", True),
        (b"x\r\r", True),
        (b"x\n", False),
        (b"x\r\n", False),
        (b"data", False),
        (b"", False),
    ],
)
def test_a_boundary_is_a_blank_line(tail: bytes, between: bool) -> None:
    assert dialects.at_boundary(tail) is between


NO_STREAM = "the engine answered {} instead of a stream"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'{"error":{"message":"m","type":"t","code":400}}', ("m", "400", "t")),
        (503, b'{"error":"busy"}', ("busy", None, "server_error")),
        (404, b'{"detail":"Not Found"}', ("Not Found", None, "server_error")),
        (422, b'{"detail":[{"loc":1}]}', (NO_STREAM, None, "server_error")),
        (500, b"", (NO_STREAM, None, "server_error")),
        (500, b"[1]", (NO_STREAM, None, "server_error")),
        (500, b'{"error":null}', (NO_STREAM, None, "server_error")),
        (200, b"{}", (NO_STREAM, None, "server_error")),
    ],
)
def test_any_engines_error_becomes_the_object_that_sdks_read(
    status: int, body: bytes, expected: tuple[str, str | None, str]
) -> None:
    message, code, kind = expected
    message = message.format(status)
    error = dialects.unwrap(status, body)
    assert error.detail() == {"message": message, "type": kind, "param": None, "code": code}
    assert error.outcome is (Outcome.SERVED if 400 <= status < 500 else Outcome.UPSTREAM_ERROR)
