"""The demand as the scaler sees it: one gateway's own, or that of many (``members``)."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from gateway.demand import Demand
from gateway.replicas import ReplicaSet


class View(Protocol):
    # Set once what the rest says rests on knowledge.
    known: asyncio.Event

    def asked(self) -> None:
        """KEDA called, perhaps for the first time."""

    def total(self) -> int:
        """Requests waiting and in flight."""

    def active(self) -> bool:
        """Whether the model is wanted."""

    def in_vain(self) -> bool:
        """Whether somebody waits, or is promised a replica, and none is there to answer."""

    def ready(self) -> bool:
        """Whether a replica answers."""

    def up(self) -> bool:
        """Whether a replica answers or is on its way to."""

    def on_rise(self, listener: Callable[[], None]) -> None:
        """``listener`` is called when the model becomes wanted, or somebody begins to wait."""

    def untold(self) -> bool:
        """Whether KEDA has not yet been told of the demand that is on now."""

    def told(self, at: float) -> None:
        """KEDA was told just now (monotonic) that the model is wanted."""


class Own:
    """One gateway's demand, and the replicas as it sees them. ``clock`` is monotonic."""

    def __init__(
        self,
        demand: Demand,
        replicas: ReplicaSet,
        *,
        known: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self._demand = demand
        self._replicas = replicas
        self._clock = clock
        self.known = known

    def asked(self) -> None:
        """Nothing to do: the state is here."""

    def total(self) -> int:
        return self._demand.total

    def active(self) -> bool:
        return self._demand.active(self._clock())

    def in_vain(self) -> bool:
        wanted = self._demand.waiting > 0 or self._demand.leased(self._clock())
        return wanted and not self.ready()

    def ready(self) -> bool:
        return bool(self._replicas.ready())

    def up(self) -> bool:
        return self.ready() or bool(self._replicas.starting())

    def on_rise(self, listener: Callable[[], None]) -> None:
        self._demand.on_rise(listener)

    def untold(self) -> bool:
        return self._demand.signalled_at is None

    def told(self, at: float) -> None:
        self._demand.signalled(at)
