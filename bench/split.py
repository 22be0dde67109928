"""A cold start cut into its phases, from what the gateway and the engine wrote. Pure.

The gateway logs when a request was accepted, when demand was signalled, when the request was
forwarded and when its first byte came back; the echo engine notes when it started, when it began to
listen and when it first answered 200. All are wall-clock seconds of one machine.
"""

import dataclasses
import itertools
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# In the order in which they happen.
MOMENTS = (
    "accepted",
    "signalled",
    "started",
    "listens",
    "answers 200",
    "forwarded",
    "first byte",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColdStart:
    """Moments by name, in seconds since the epoch."""

    moments: Mapping[str, float]

    def between(self, earlier: str, later: str) -> float:
        return self.moments[later] - self.moments[earlier]


def requests(gateway_log: str) -> list[dict[str, Any]]:
    """The records of requests that had to wait, in the order in which they ended."""
    return [record for record in _records(gateway_log) if "phases" in record]


def cold_start(request: Mapping[str, Any], engine_log: str) -> ColdStart:
    """The split of one request: its engine is the one that began to listen while it waited.

    LookupError where the log holds no such engine.
    """
    phases = request["phases"]
    notes = [
        record
        for record in _records(engine_log)
        if phases["accepted"] <= record["time"] <= phases["first_byte"]
    ]
    listening = _first(notes, "listening")
    healthy = _first(notes, "healthy")
    return ColdStart(
        moments={
            "accepted": phases["accepted"],
            "signalled": phases["signalled"],
            "started": listening["started"],
            "listens": listening["time"],
            "answers 200": healthy["time"],
            "forwarded": phases["forwarded"],
            "first byte": phases["first_byte"],
        }
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Milliseconds."""

    p50: float
    p95: float

    def __str__(self) -> str:
        return f"{self.p50:9.1f} {self.p95:9.1f}"


def quantiles(seconds: Sequence[float]) -> Quantiles:
    """Of at least two values."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return Quantiles(p50=statistics.median(seconds) * 1000, p95=cuts[18] * 1000)


def phases(
    starts: Sequence[ColdStart], moments: Sequence[str] = MOMENTS
) -> list[tuple[str, Quantiles]]:
    """Each phase, and the whole."""
    pairs = [*itertools.pairwise(moments), (moments[0], moments[-1])]
    return [
        (
            f"{earlier} -> {later}",
            quantiles([start.between(earlier, later) for start in starts]),
        )
        for earlier, later in pairs
    ]


def table(starts: Sequence[ColdStart], moments: Sequence[str] = MOMENTS) -> list[str]:
    """One line for each phase, and the whole."""
    return [f"  {phase:30} {found}" for phase, found in phases(starts, moments)]


def _records(log: str) -> Iterable[dict[str, Any]]:
    """The JSON objects among the lines; a line that is still being written is left out."""
    for line in log.splitlines():
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)


def _first(notes: Sequence[Mapping[str, Any]], event: str) -> Mapping[str, Any]:
    found = next((note for note in notes if note["event"] == event), None)
    if found is None:
        raise LookupError(f"no engine noted {event!r} while the request waited")
    return found
