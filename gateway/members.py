"""Many gateways' demand as one. No I/O here: ``subscriptions`` brings what each of them says.

A member that falls silent keeps its last word for ten seconds: a gateway that restarts, or a
connection that is lost, must not look like the end of the requests that it carries.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from gateway.replicas import Address

LAST_WORD = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Said:
    """One line of a member's demand stream."""

    demand: int
    waiting: int
    active: bool
    ready: int
    starting: int

    @property
    def waits(self) -> bool:
        """Somebody waits, or left and was promised a replica."""
        return self.waiting > 0 or (self.active and self.demand == 0)


def parse(line: dict[str, Any]) -> Said:
    """Raises ValueError, LookupError or TypeError where it is none."""
    replicas = line["replicas"]
    return Said(
        demand=int(line["demand"]),
        waiting=int(line["waiting"]),
        active=bool(line["active"]),
        ready=int(replicas["ready"]),
        starting=int(replicas["starting"]),
    )


class Members:
    """A ``view.View``. ``clock`` is monotonic; ``begin`` is called at KEDA's first call."""

    def __init__(self, *, clock: Callable[[], float], begin: Callable[[], None]) -> None:
        self._clock = clock
        self._begin = begin
        self._begun = False
        self._said: dict[Address, tuple[float, Said]] = {}
        self._rose: list[Callable[[], None]] = []
        self._told_at: float | None = None
        self.known = asyncio.Event()

    def heard(self, member: Address, said: Said) -> None:
        before = (self.active(), self.in_vain())
        if not before[0]:
            self._told_at = None
        self._said = {m: (at, s) for m, (at, s) in self._said.items() if self._counts(at)}
        self._said[member] = (self._clock(), said)
        now = (self.active(), self.in_vain())
        if (now[0] and not before[0]) or (now[1] and not before[1]):
            for listener in self._rose:
                listener()

    def knows(self, member: Address) -> bool:
        return member in self._said

    def fresh(self) -> dict[Address, Said]:
        """Those whose word still counts."""
        return {m: said for m, (at, said) in self._said.items() if self._counts(at)}

    def _counts(self, at: float) -> bool:
        return self._clock() - at < LAST_WORD

    def asked(self) -> None:
        if not self._begun:
            self._begun = True
            self._begin()

    def total(self) -> int:
        return sum(said.demand for said in self.fresh().values())

    def active(self) -> bool:
        return any(said.active for said in self.fresh().values())

    def in_vain(self) -> bool:
        return any(said.waits for said in self.fresh().values()) and not self.ready()

    def ready(self) -> bool:
        return any(said.ready for said in self.fresh().values())

    def up(self) -> bool:
        return any(said.ready or said.starting for said in self.fresh().values())

    def on_rise(self, listener: Callable[[], None]) -> None:
        self._rose.append(listener)

    def untold(self) -> bool:
        return self._told_at is None

    def told(self, at: float) -> None:
        if self._told_at is None:
            self._told_at = at
