"""What can go wrong, by what the pipeline does next.

Refusal       answered to the client: a status and an OpenAI error body before the 200, an error
              event after it
NothingSent   the replica took no connection, so the request joins the activation again; Exhausted,
              where it was never asked
UpstreamLost  the engine broke off; ``began`` says whether a byte of its answer had come
ClientGone    nobody is left to answer
"""

from gateway.outcomes import Outcome


class Refusal(Exception):
    """``retry_after`` in seconds. ``retry`` tells SDKs outright; None leaves it to the status."""

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        *,
        outcome: Outcome,
        kind: str = "server_error",
        param: str | None = None,
        retry_after: int | None = None,
        retry: bool | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.outcome = outcome
        self.kind = kind
        self.param = param
        self.retry_after = retry_after
        self.retry = retry
        self.close = close  # The client's connection is of no further use: its body was not read.

    def detail(self) -> dict[str, str | None]:
        """OpenAI's error object: all four keys, always."""
        return {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }


def invalid(status: int, message: str, *, code: str | None = None, close: bool = False) -> Refusal:
    return Refusal(
        status,
        code,
        message,
        outcome=Outcome.INVALID,
        kind="invalid_request_error",
        # SDKs would send it again for a 5xx, and it will not be another request then.
        retry=False if status >= 500 else None,
        close=close,
    )


def asleep(method: str) -> Refusal:
    """For a request that starts nothing: coming back later would find the same."""
    return Refusal(
        503,
        "backend_asleep",
        f"the model is asleep, and {method} requests do not wake it; a POST to an inference "
        "endpoint does, and GET /v1/models is answered all the same",
        outcome=Outcome.COLD,
        retry=False,
    )


def fault() -> Refusal:
    """A bug of ours: nothing about it is the client's business."""
    return Refusal(500, None, "internal error", outcome=Outcome.FAULT, close=True)


class NothingSent(Exception):
    """``kind``: refused, unreachable or connect_timeout."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Exhausted(NothingSent):
    """It was this machine that had no descriptor or no memory for it, not the replica's refusal."""

    def __init__(self) -> None:
        super().__init__("exhausted")


class UpstreamLost(Exception):
    """``kind``: reset, closed, framing, first_byte_timeout or idle_timeout."""

    def __init__(self, kind: str, *, began: bool) -> None:
        super().__init__(kind)
        self.kind = kind
        self.began = began


class ClientGone(Exception):
    """Raised where the client's connection is found closed; nothing more can be said to it."""
