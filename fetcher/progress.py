"""Tells a person how far a run is: a bar on a terminal, in a log a line every few seconds."""

import collections
import threading
import time
import typing

_TERMINAL_SECONDS = 0.2
# Often enough to see that it moves, seldom enough that an hour is a few hundred lines.
_LOG_SECONDS = 10.0
# The rate shown is that of this last while, so that it follows a change.
_WINDOW_SECONDS = 30.0
_BAR_WIDTH = 24


class Progress:
    """Counts bytes from any thread and writes to `out` while the block runs."""

    def __init__(self, out: typing.TextIO, *, every: float | None = None) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._every = every or (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS)
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0
        self._seen: collections.deque[tuple[float, int]] = collections.deque()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> typing.Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._terminal and self._total:
            self._out.write("\r\033[K")
            self._out.flush()

    def expect(self, total: int) -> None:
        """Set what 100 % is; nothing is shown before."""
        with self._lock:
            self._total, self._done = total, 0
            self._seen.clear()
            self._seen.append((time.monotonic(), 0))

    def advance(self, count: int) -> None:
        """Count bytes that are written and hashed; negative where they had to be dropped."""
        with self._lock:
            self._done += count

    def say(self, text: str) -> None:
        """A line of its own, such as what is waited for."""
        with self._lock:
            self._out.write(f"\r\033[K{text}\n" if self._terminal else f"{text}\n")
            self._out.flush()

    def _run(self) -> None:
        while not self._end.wait(self._every):
            with self._lock:
                if not self._total:
                    continue
                line = self._line(time.monotonic())
                self._out.write(f"\r{self._bar()} {line}\033[K" if self._terminal else f"{line}\n")
                self._out.flush()

    def _bar(self) -> str:
        filled = min(_BAR_WIDTH, _BAR_WIDTH * self._done // self._total)
        return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"

    def _line(self, now: float) -> str:
        self._seen.append((now, self._done))
        while now - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        return line(self._done, self._total, _rate(self._seen))


def _rate(seen: collections.abc.Sequence[tuple[float, int]]) -> float:
    seconds = seen[-1][0] - seen[0][0]
    return max(0.0, (seen[-1][1] - seen[0][1]) / seconds) if seconds else 0.0


def line(done: int, total: int, rate: float) -> str:
    """`1.2 of 4.0 GiB (30 %), 85.0 MiB/s, 33 s left`; `rate` is in bytes per second."""
    left = f"{duration((total - done) / rate)} left" if rate else "waiting for bytes"
    percent = 100 * done // total if total else 100
    return f"{size(done)} of {size(total)} ({percent} %), {size(rate)}/s, {left}"


def size(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """A time span as people read it."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
