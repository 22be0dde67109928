"""Runs the fetcher and lets it die, or its volume fail, at the n-th change to the volume.

    python -m tests.process.fetcher.faulty kill 17 stage hf://org/m --cache=...
    python -m tests.process.fetcher.faulty ENOSPC 17 stage ...

Every call that changes a filesystem is counted, in whatever thread. `kill` is SIGKILL just before
the call. An error is raised from it once, or from all that follow with `ENOSPC+`. With a step that
is never reached the run is ordinary. At the end STEPS_FILE gets the number of steps.
"""

import collections.abc
import errno
import os
import pathlib
import signal
import sys
import threading
import typing

from fetcher import cli

_CHANGES = (
    "chmod", "fchmod", "fsync", "mkdir", "open", "pwrite", "rename", "replace", "rmdir", "unlink",
    "utime",
)  # fmt: skip


class Steps:
    """Counts changes and makes one of them fail."""

    def __init__(self, fault: str, at: int) -> None:
        self.count = 0
        self._fault = fault
        self._at = at
        self._lock = threading.Lock()

    def next(self, name: str) -> None:
        with self._lock:
            self.count += 1
            lasting = self._fault.endswith("+")
            if self.count != self._at and not (lasting and self.count > self._at > 0):
                return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self._fault.rstrip("+"))
        # Removing takes no space.
        if lasting and name in ("unlink", "rmdir", "rename"):
            return
        raise OSError(code, os.strerror(code))


def wrap(steps: Steps, name: str) -> None:
    original: collections.abc.Callable[..., object] = getattr(os, name)

    def counted(*args: typing.Any, **kwargs: typing.Any) -> object:
        changes = name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if changes:
            steps.next(name)
        return original(*args, **kwargs)

    setattr(os, name, counted)


def main() -> int:
    steps = Steps(sys.argv[1], int(sys.argv[2]))
    for name in _CHANGES:
        wrap(steps, name)
    code = cli.main(sys.argv[3:])
    if said := os.environ.get("STEPS_FILE"):
        count = str(steps.count)
        pathlib.Path(said).write_text(count)
    return code


if __name__ == "__main__":
    sys.exit(main())
