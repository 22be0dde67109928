"""One request as the pipeline carries it: what came in, what was said back, what it will be
recorded as."""

import dataclasses
import random
import re
import time

from aiohttp import web

from gateway import asks, route, waiting
from gateway.answer import Answer
from gateway.outcomes import Outcome

# What may stand in logs and headers as it came; any other id is replaced.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclasses.dataclass(kw_only=True, slots=True)
class Bill:
    """Pessimistic until the pipeline says otherwise. ``started`` and all later moments are
    monotonic; ``accepted`` is ``started`` by the wall clock, which may be set in between."""

    accepted: float
    started: float
    outcome: Outcome = Outcome.FAULT
    waited_since: float | None = None
    signalled: float | None = None
    released: float | None = None
    forwarded: float | None = None
    first_byte: float | None = None
    replica: str | None = None
    heartbeats: int = 0
    error: str | None = None

    def phases(self) -> dict[str, float | None]:
        """Moments as seconds since the epoch, by the clock as it was at the first."""
        moments = {
            "accepted": self.started,
            "signalled": self.signalled,
            "released": self.released,
            "forwarded": self.forwarded,
            "first_byte": self.first_byte,
        }
        return {
            name: None if at is None else round(self.accepted + (at - self.started), 6)
            for name, at in moments.items()
        }


class Call:
    __slots__ = (
        "_ask",
        "answer",
        "bill",
        "body",
        "http",
        "id",
        "target",
    )

    def __init__(self, http: web.BaseRequest, target: route.Target) -> None:
        self.http = http
        self.target = target
        self.id = request_id(http.headers.get("X-Request-Id"))
        self.answer = Answer(http, self.id)
        self.bill = Bill(accepted=time.time(), started=time.monotonic())
        self.body = b""
        self._ask: asks.Ask | None = None

    def ask(self) -> asks.Ask:
        """What the body asks for; parsed when first wanted, which a warm model never does."""
        if self._ask is None:
            self._ask = asks.read(
                self.body,
                content_type=self.http.headers.get("Content-Type"),
                content_encoding=self.http.headers.get("Content-Encoding"),
            )
        return self._ask


def request_id(given: str | None) -> str:
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    # Unique is enough; nobody gains anything by guessing one.
    return f"{random.getrandbits(128):032x}"


def retry_after(seconds: float) -> int:
    """For clients that are refused together: ``waiting.retry_after`` with a chance of its own."""
    return waiting.retry_after(seconds, jitter=random.random())  # noqa: S311 - no secret.
