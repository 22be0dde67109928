"""Processes known by pid *and* start time, so that a recycled pid is never signalled."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence

_spawned: set[int] = set()


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of this machine for as long as it lives. ``started`` is in ticks since boot."""

    pid: int
    started: int

    def alive(self) -> bool:
        """A zombie counts as dead: it holds nothing but its number."""
        seen = _stat(self.pid)
        return seen is not None and seen.started == self.started and seen.state != "Z"

    def signal(self, number: signal.Signals) -> bool:
        """Whether the signal was sent; a process that is gone is not an error."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle is taken first: from here on the pid cannot change its owner unseen.
            if not self.alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        else:
            return True
        finally:
            os.close(handle)

    def wait(self, seconds: float) -> bool:
        """Whether the process ended in time."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def stop(self, grace: float) -> None:
        """Ask with SIGTERM, then insist."""
        self.signal(signal.SIGTERM)
        if not self.wait(grace):
            self.signal(signal.SIGKILL)
            self.wait(5)


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], output: pathlib.Path, keep: int | None = None
) -> int:
    """Start a program in a session of its own and let it live: its pid.

    Not ``subprocess.Popen``, which warns when its object goes while the program stays. ``keep``
    is the one descriptor that the program inherits.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    if keep is not None:
        os.set_inheritable(keep, True)
    reap()
    program = shutil.which(argv[0], path=env["PATH"]) or argv[0]
    pid = os.posix_spawn(program, list(argv), env, file_actions=actions, setsid=True)
    _spawned.add(pid)
    return pid


def reap() -> None:
    """Forget the spawned programs that have ended."""
    for pid in list(_spawned):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                continue
        _spawned.discard(pid)


def of(pid: int) -> Process | None:
    """The process that has this pid now."""
    seen = _stat(pid)
    return None if seen is None or seen.state == "Z" else Process(pid, seen.started)


def children(pid: int) -> list[Process]:
    return [child for child, parent in _all() if parent == pid]


def inside_network(network: pathlib.Path) -> list[Process]:
    """Every process of the machine whose network is the named namespace."""
    wanted = os.stat(network)
    found = []
    for process, _ in _all():
        with contextlib.suppress(OSError):
            seen = os.stat(f"/proc/{process.pid}/ns/net")
            if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(process)
    return found


@dataclasses.dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may hold spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return _Stat(state=fields[0], parent=int(fields[1]), started=int(fields[19]))


def _all() -> Iterator[tuple[Process, int]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (seen := _stat(int(entry))) is not None and seen.state != "Z":
            yield Process(int(entry), seen.started), seen.parent
