"""Whether the model is wanted, and how much: what the scaler tells KEDA.

Demand is requests waiting plus requests in flight; it falls at once when clients leave. A lease
keeps the model wanted beyond them, so that a cold start that somebody asked for comes to its end.
"""

from collections.abc import Callable
from typing import Literal, Self

# After readiness the lease stays for one polling interval of KEDA's, so that a client that was
# told to come back finds a model that one poll at least has called active.
GRACE_AFTER_READY = 10.0

State = Literal["waiting", "in_flight"]


class Demand:
    """Times are monotonic seconds and come in as arguments or from ``clock``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rose: list[Callable[[], None]] = []
        self._changed: list[Callable[[], None]] = []
        self.waiting = 0
        self.in_flight = 0
        self.lease_until = 0.0
        # When the scaler first told KEDA of the demand that is on now.
        self.signalled_at: float | None = None

    @property
    def total(self) -> int:
        return self.waiting + self.in_flight

    def leased(self, now: float) -> bool:
        return now < self.lease_until

    def active(self, now: float) -> bool:
        return self.total > 0 or self.leased(now)

    def on_rise(self, listener: Callable[[], None]) -> None:
        """``listener`` is called when the model becomes wanted, and when a request has to wait
        where none waited before: the two edges that KEDA must hear of at once."""
        self._rose.append(listener)

    def on_change(self, listener: Callable[[], None]) -> None:
        """``listener`` is called at every change; not when a lease runs out."""
        self._changed.append(listener)

    def lease(self, *, until: float) -> None:
        """Want the model until ``until`` at least, whoever leaves."""
        before = self.active(self._clock())
        if not before:
            self.signalled_at = None
        self.lease_until = max(self.lease_until, until)
        self._tell(rose=not before)

    def answered(self, now: float) -> None:
        """A replica is ready: what is left of the lease is a short grace."""
        if self.leased(now):
            self.lease_until = min(self.lease_until, now + GRACE_AFTER_READY)
            self._tell(rose=False)

    def signalled(self, at: float) -> None:
        """The scaler told KEDA just now that the model is wanted."""
        if self.signalled_at is None:
            self.signalled_at = at

    def request(self) -> "Want":
        """``with demand.request() as want``: one request's place in the demand."""
        return Want(self)

    def move(self, old: State | None, new: State | None) -> None:
        active = self.active(self._clock())
        if not active:
            self.signalled_at = None
        before = active and (new != "waiting" or self.waiting > 0)
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, +1)
        self._tell(rose=new is not None and not before)

    def _count(self, state: State, by: int) -> None:
        if state == "waiting":
            self.waiting += by
        else:
            self.in_flight += by
        assert self.waiting >= 0 and self.in_flight >= 0, "a request was counted out twice"

    def _tell(self, *, rose: bool) -> None:
        for listener in self._changed:
            listener()
        if rose:
            for listener in self._rose:
                listener()


class Want:
    """Counts nowhere until it is told to wait or to fly; left on every way out of the block."""

    __slots__ = ("_demand", "_state")

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._state: State | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def wait(self) -> None:
        self._go("waiting")

    def fly(self) -> None:
        self._go("in_flight")

    def leave(self) -> None:
        self._go(None)

    def _go(self, state: State | None) -> None:
        if state != self._state:
            old, self._state = self._state, state
            self._demand.move(old, state)
