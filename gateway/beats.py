"""Heartbeats of all held streams, from one timer.

A held stream would otherwise wake its own task for every beat, which costs more than the beat.
Beats that are due within the same twentieth of a second leave together.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator

_GRAIN = 0.05


class Beats:
    def __init__(self) -> None:
        self._due: list[tuple[float, int, _Beat]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def every(self, seconds: float, call: Callable[[], None], *, first: float) -> Iterator[None]:
        """``call`` at ``first`` (monotonic) and then every ``seconds``, while the block lasts."""
        beat = _Beat(seconds, call)
        self._push(beat, first)
        self._arm()
        try:
            yield
        finally:
            # It stays in the heap until it is due, which is no longer than one interval.
            beat.over = True

    def _push(self, beat: "_Beat", due: float) -> None:
        heapq.heappush(self._due, (due, next(self._order), beat))

    def _arm(self) -> None:
        if not self._due:
            return
        loop = asyncio.get_running_loop()
        at = max(self._due[0][0], loop.time() + _GRAIN)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            # A client that waits for less than the others came after them.
            self._timer.cancel()
        self._timer = loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= now:
            due, _, beat = heapq.heappop(self._due)
            if not beat.over:
                beat.call()
                self._push(beat, max(due + beat.seconds, now))
        self._arm()


class _Beat:
    __slots__ = ("call", "over", "seconds")

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds = seconds
        self.call = call
        self.over = False
