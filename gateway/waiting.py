"""How long a client is kept, and when it is told to come back. Seconds throughout."""

import math
import statistics
from collections import deque
from collections.abc import Mapping

# undici, below every Node SDK, gives up on headers after 300 s whatever the SDK was told.
HOLD_WITHOUT_HEARTBEATS = 280.0
# How the OpenAI SDKs announce what they were told: Python per read, Node for the whole.
_READ_TIMEOUT, _TIMEOUT = "x-stainless-read-timeout", "x-stainless-timeout"
# Nobody is beaten for more often than this.
_LEAST_INTERVAL = 0.5
# An answer needs some time of the client's patience to arrive in.
_MARGIN = 5.0
# SDKs ignore or misread a Retry-After outside this range: 0 means at once to some, and above 60
# some fall back to half a second.
_RETRY_AFTER = (1, 60)
# 429 while warm: places come free at the pace of generations.
RETRY_WHEN_FULL = 2.0


def hold_limit(headers: Mapping[str, str], *, activation_timeout: float) -> float:
    """How long a request that does not stream may wait for its first byte."""
    patience = _seconds(headers.get(_READ_TIMEOUT))
    limit = HOLD_WITHOUT_HEARTBEATS
    if patience is not None:
        limit = _less_margin(patience)
    else:
        patience = _seconds(headers.get(_TIMEOUT))
        if patience is not None:
            limit = min(limit, _less_margin(patience))
    return min(limit, activation_timeout)


def beat_interval(headers: Mapping[str, str], *, interval: float) -> float:
    """The time between two heartbeats: less than ``interval`` for a client that waits for less."""
    patience = _seconds(headers.get(_READ_TIMEOUT)) or _seconds(headers.get(_TIMEOUT))
    return interval if patience is None else min(interval, max(patience / 2, _LEAST_INTERVAL))


def _less_margin(patience: float) -> float:
    return max(patience - _MARGIN, patience / 2)


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


class Estimate:
    """How long a cold start takes: the median of the last ones, or a guess from the spec."""

    def __init__(self, *, startup_budget: float, activation_timeout: float) -> None:
        # Budgets are set with room to spare; half of the smaller one is a fair first guess.
        self._guess = min(startup_budget, activation_timeout) / 2
        self._last: deque[float] = deque(maxlen=9)

    def learn(self, seconds: float) -> None:
        self._last.append(seconds)

    def seconds(self) -> float:
        return statistics.median(self._last) if self._last else self._guess

    def remaining(self, *, elapsed: float) -> float:
        return max(self.seconds() - elapsed, 0.0)


def retry_after(seconds: float, *, jitter: float) -> int:
    """A Retry-After that every SDK takes literally. ``jitter`` in [0, 1) spreads the clients that
    were refused together over 0.75 to 1.25 of ``seconds``."""
    least, most = _RETRY_AFTER
    return min(max(math.ceil(seconds * (0.75 + jitter / 2)), least), most)
