"""What the gateway counts, and the Prometheus text made of it.

Plain numbers are counted on the request's way and turned into metrics only when somebody asks: a
counter object per request costs a tenth of a whole proxied request. Labels come from closed lists.
"""

import bisect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway import log
from gateway.activation import Cycle
from gateway.calls import Call

# Seconds; a cold start may take from one to thirty minutes and more.
_ACTIVATION_BUCKETS = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1800)
_DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
# An engine may say any number; a label for each would be a series for each.
_STATUSES: dict[int | None, str] = {None: "none", **{s.value: str(s.value) for s in HTTPStatus}}
PHASES = ("signalled", "starting", "ready", "forwarded", "first_byte")


class Histogram:
    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(self._buckets, seconds)] += 1
        self._sum += seconds

    def samples(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative buckets and the sum, as prometheus_client takes them."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for edge, count in zip([*map(str, self._buckets), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((edge, total))
        return buckets, self._sum


class Signals:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.upstream_errors: Counter[str] = Counter()
        self.activations: Counter[str] = Counter()
        self.heartbeats = 0
        self._durations = Histogram(_DURATION_BUCKETS)
        self._activation_seconds = Histogram(_ACTIVATION_BUCKETS)
        self._phases = {phase: Histogram(_ACTIVATION_BUCKETS) for phase in PHASES}

    def upstream_error(self, kind: str) -> None:
        self.upstream_errors[kind] += 1

    def record(self, call: Call) -> None:
        """One request came to its end: count it, and write its line."""
        bill = call.bill
        duration = time.monotonic() - bill.started
        status = call.answer.status
        self.requests[bill.outcome, _STATUSES.get(status, "other")] += 1
        self._durations.observe(duration)
        facts: dict[str, object] = {}
        if bill.error is not None:
            facts["error"] = bill.error
        if bill.waited_since is not None:
            facts["phases"] = bill.phases()
            facts["heartbeats"] = bill.heartbeats
            self._observe_phases(call)
        log.request(
            request_id=call.id,
            method=call.http.method,
            path=call.target.path or call.http.path,
            status=status,
            outcome=bill.outcome,
            duration=duration,
            replica=bill.replica,
            **facts,
        )

    def activation_ended(self, result: str, cycle: Cycle, now: float) -> None:
        self.activations[result] += 1
        if result != "ready":
            return
        self._activation_seconds.observe(cycle.seconds(now))
        moments = {"signalled": cycle.signalled_at, "starting": cycle.starting_at}
        before = cycle.started
        for phase, at in {**moments, "ready": time.monotonic()}.items():
            if at is not None:
                self._phases[phase].observe(max(at - before, 0.0))
                before = max(at, before)

    def _observe_phases(self, call: Call) -> None:
        bill = call.bill
        if bill.released is None or bill.forwarded is None:
            return
        self._phases["forwarded"].observe(max(bill.forwarded - bill.released, 0.0))
        if bill.first_byte is not None:
            self._phases["first_byte"].observe(max(bill.first_byte - bill.forwarded, 0.0))

    def metrics(self) -> Iterable[Metric]:
        yield _counter(
            "noctaya_requests",
            "Requests by how they ended and by the status that the client saw.",
            ("outcome", "status"),
            self.requests,
        )
        yield _counter(
            "noctaya_upstream_errors",
            "Faults of replicas, those that were made good included.",
            ("kind",),
            {(kind,): n for kind, n in self.upstream_errors.items()},
        )
        yield _counter(
            "noctaya_activations",
            "Cold starts by result.",
            ("result",),
            {(result,): n for result, n in self.activations.items()},
        )
        yield _counter("noctaya_heartbeats", "Heartbeats sent.", (), {(): self.heartbeats})
        yield _histogram(
            "noctaya_request_seconds", "Requests from arrival to end.", {(): self._durations}
        )
        yield _histogram(
            "noctaya_activation_seconds",
            "Cold starts from the first request to a ready replica.",
            {(): self._activation_seconds},
        )
        yield _histogram(
            "noctaya_activation_phase_seconds",
            "Each phase of a cold start, counted from the end of the one before.",
            {(phase,): histogram for phase, histogram in self._phases.items()},
            ("phase",),
        )


class Exposition(Collector):
    """Everything on ``/metrics``: the signals, and gauges read at the moment of the question."""

    def __init__(self, signals: Signals, gauges: Callable[[], dict[str, float]]) -> None:
        self._signals = signals
        self._gauges = gauges
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._signals.metrics()
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"noctaya_{name}", GAUGES[name], value=value)


# The names of the gauges are those of ``/noctaya/queue``, in Prometheus' spelling.
GAUGES = {
    "demand": "Requests waiting and in flight: what KEDA is told.",
    "waiting": "Requests that wait for a replica.",
    "in_flight": "Requests at a replica.",
    "admitted": "Requests that hold a slot, those whose bodies are still read included.",
    "held_bytes": "Bytes of request bodies in memory.",
    "active": "1 while the model is wanted.",
    "replicas_ready": "Replicas that take requests.",
    "replicas_starting": "Replicas that do not answer yet.",
    "replicas_terminating": "Replicas on their way out.",
    "scaler_streams": "Open streams of KEDA's.",
    "idle_upstream_connections": "Pooled connections to replicas.",
    "client_connections": "Open connections of clients.",
    "tasks": "Running tasks.",
    "members": "Gateways whose demand is known.",
}


def _counter(name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, values: dict[tuple[str, ...], Histogram], labels: Sequence[str] = ()
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, histogram in values.items():
        buckets, total = histogram.samples()
        family.add_metric(key, buckets=buckets, sum_value=total)
    return family
