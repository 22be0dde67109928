"""A queue of keys as controllers use one: each key once, delays, and a backoff for failures."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# As client-go's default limiter: 5 ms after the first failure, doubled up to 1000 s.
_FIRST_BACKOFF_SECONDS = 0.005
_LAST_BACKOFF_SECONDS = 1000.0


def backoff_seconds(failures: int) -> float:
    """The wait after so many failures in a row, the first being number 1."""
    return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 30), _LAST_BACKOFF_SECONDS)


class WorkQueue(Generic[K]):
    """Keys to work on. One key is in one worker's hands at a time.

    A key added while a worker holds it comes up again once that worker is `done` with it. Safe to
    share between threads. ``clock`` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wake = threading.Condition()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._held: set[K] = set()
        self._added_while_held: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._count = 0
        self._closed = False

    def add(self, key: K, *, after: float = 0.0) -> None:
        """Have a key worked on in ``after`` seconds, or earlier if it is due earlier anyway."""
        with self._wake:
            due = self._clock() + after
            # A delay runs on while the key is in a worker's hands, but never past its release.
            waiting = self._added_while_held if key in self._held else self._due
            if due < waiting.get(key, float("inf")):
                waiting[key] = due
                if waiting is self._due:
                    self._push(key, due)

    def fail(self, key: K) -> float:
        """Have a key worked on again after its backoff; answers the seconds until then."""
        with self._wake:
            self._failures[key] = self._failures.get(key, 0) + 1
            after = backoff_seconds(self._failures[key])
        self.add(key, after=after)
        return after

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is its first."""
        with self._wake:
            self._failures.pop(key, None)

    def get(self) -> K | None:
        """Take the next key that is due, waiting for one; None once the queue is closed."""
        with self._wake:
            while not self._closed:
                wait = self._until_next()
                if wait is not None and wait <= 0:
                    key = heapq.heappop(self._heap)[2]
                    del self._due[key]
                    self._held.add(key)
                    return key
                self._wake.wait(wait)
            return None

    def done(self, key: K) -> None:
        """Give a key back that `get` handed out."""
        with self._wake:
            self._held.discard(key)
            due = self._added_while_held.pop(key, None)
            if due is not None:
                self._due[key] = due
                self._push(key, due)

    def close(self) -> None:
        """Have every `get` answer None from now on."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()

    def _push(self, key: K, due: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._wake.notify()

    def _until_next(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # Taken already, or due earlier since.
        return self._heap[0][0] - self._clock() if self._heap else None
