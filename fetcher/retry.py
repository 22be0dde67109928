"""How often and after what pause a transient failure is tried again."""

import collections.abc
import dataclasses
import datetime
import email.utils
import random
import threading
import typing

from fetcher import errors

T = typing.TypeVar("T")

# Statuses that say "not now". 408 and 429 by their definition, 5xx by custom.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524, 529})
# The longest pause that a remote can ask for; the Job's own backoff covers longer outages.
_LONGEST_WISH_SECONDS = 120.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Tries:
    """A patience: `allowed` tries in a row without progress, pauses doubling from `first_seconds`.

    The pauses of 6 tries add up to about 16 s, which outlives a load balancer's change of
    backends; a longer outage is the Job's to retry.
    """

    stop: threading.Event
    allowed: int = 6
    first_seconds: float = 0.5

    def pause(self, failures: int, wish: float | None) -> None:
        """Wait after the n-th failure in a row; a run that is ending stops waiting."""
        doubled = min(self.first_seconds * 2 ** (failures - 1), _LONGEST_PAUSE_SECONDS)
        wait = doubled * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret.
        if wish is not None:
            wait = max(wait, min(wish, _LONGEST_WISH_SECONDS))
        if self.stop.wait(wait):
            raise errors.Interrupted("asked to stop; what is verified is kept for the next run")

    def failed(self, failure: errors.Transient, failures: int) -> None:
        """Pause before the next try, or raise what the failure is called in the end."""
        if self.stop.is_set():
            raise errors.Interrupted("asked to stop; what is verified is kept for the next run")
        if failures >= self.allowed:
            raise failure.final(failures) from failure
        self.pause(failures, failure.after)

    def call(self, action: collections.abc.Callable[[], T]) -> T:
        """Run an action until it does not fail transiently."""
        failures = 0
        while True:
            try:
                return action()
            except errors.Transient as e:
                failures += 1
                self.failed(e, failures)


def transient(status: int) -> bool:
    """Whether a status means that the same request may succeed later."""
    return status in _TRANSIENT


def wish(headers: collections.abc.Mapping[str, str], *, now: datetime.datetime) -> float | None:
    """Retry-After in seconds, whether it is said as a number or as a date."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isdecimal():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())
