"""stderr, written so that whatever reads it can neither stop nor slow the gateway.

A container's stderr is a pipe: when the runtime's log reader stalls, a plain write blocks until it
goes on, and the event loop with it. So nothing is written that does not fit at once; a bounded
rest waits for the next line, and beyond that whole lines are dropped and counted.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable

# A pipe that poll calls writable takes this much without blocking (PIPE_BUF).
_STEP = 4096
# About 5,000 lines: a log reader that is restarted loses nothing.
_MOST_WAITING = 1024 * 1024


class Stderr:
    """Writes to file descriptor ``number``, which is left as it is: a shell may share it, and
    would not expect it to become non-blocking. ``lost`` makes the line that says how many lines
    are missing before it."""

    def __init__(self, number: int, lost: Callable[[int], bytes]) -> None:
        self._number = number
        self._lost = lost
        self._poll = select.poll()
        self._poll.register(number, select.POLLOUT)
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._mid_line = False
        self._dropped = 0

    def write(self, lines: bytes) -> None:
        """``lines`` are whole ones. Never blocks, never raises; from any thread."""
        with self._lock:
            before = self._dropped
            if before and len(self._waiting) > _MOST_WAITING // 2:
                # Whatever is missing is missing in one place.
                self._dropped += lines.count(b"\n")
                lines = b""
            elif before:
                self._waiting += self._lost(before)
                self._dropped = 0
            self._waiting += lines
            try:
                self._push()
            except OSError:
                # A full disk, or a pipe that nobody reads any more.
                self._dropped = before + lines.count(b"\n")
                # The next line shall not be joined to one whose end is lost.
                self._waiting[:] = b"\n" if self._mid_line else b""
            self._cut()

    def finish(self, *, within: float) -> None:
        """Before the end, give what still waits ``within`` seconds to leave. Blocks."""
        end = time.monotonic() + within
        with self._lock, contextlib.suppress(OSError):
            while self._waiting and (left := end - time.monotonic()) > 0:
                self._poll.poll(left * 1000)
                self._push()

    def _push(self) -> None:
        """Raises OSError where what is written is lost."""
        done = 0
        try:
            while done < len(self._waiting) and self._poll.poll(0):
                done += os.write(self._number, self._waiting[done : done + _STEP])
        finally:
            if done:
                self._mid_line = self._waiting[done - 1] != ord("\n")
                del self._waiting[:done]

    def _cut(self) -> None:
        if len(self._waiting) > _MOST_WAITING:
            end = self._waiting.rfind(b"\n", 0, _MOST_WAITING) + 1
            self._dropped += self._waiting.count(b"\n", end)
            del self._waiting[end:]
