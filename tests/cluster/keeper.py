"""The process that outlives a rig by a second, to clear away what has a name.

``start`` makes the namespaces and returns once the rig's first process is ready. The keeper ends
the rig when it is told to (SIGTERM), when the rig's first process ends, or when its leash, a pipe
held by the starter, closes before the starter let go of it. If the keeper itself is killed, its
children follow (PDEATHSIG), and the next ``up`` or ``down`` calls ``clear``.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

from tests.cluster import cgroups, errors, innermost, layout, machine, network, processes

_PR_SET_PDEATHSIG = 1

_RECORD = "keeper.json"
_RELEASED = b"."


@dataclasses.dataclass(frozen=True)
class Kept:
    """A rig's two anchors: its keeper, and the first process inside its namespaces."""

    keeper: processes.Process
    first: processes.Process

    def alive(self) -> bool:
        return self.keeper.alive() and self.first.alive()


@dataclasses.dataclass(frozen=True)
class Leash:
    """While this process lives and holds it, the rig lives; not a moment longer."""

    end: int

    def release(self) -> None:
        """From here on the rig lives until it is told to end."""
        os.write(self.end, _RELEASED)
        os.close(self.end)


def start(instance: layout.Instance) -> Leash:
    """Start the keeper, apart from this process's session, and wait for the rig's namespaces."""
    theirs, ours = os.pipe()
    argv = ["env", f"--chdir={layout.REPOSITORY}", sys.executable, "-m", "tests.cluster.keeper"]
    pid = processes.spawn(
        [*argv, instance.name, str(theirs)],
        env={**os.environ, "PATH": machine.SEARCH_PATH},
        output=instance.log("keeper"),
        keep=theirs,
    )
    os.close(theirs)
    deadline = time.monotonic() + 20
    while read(instance) is None:
        if processes.of(pid) is None or time.monotonic() > deadline:
            words = instance.log("keeper").read_text().strip().splitlines() or ["no output"]
            raise errors.RigError(f"the rig's namespaces could not be made: {words[-1]}")
        time.sleep(0.02)
    return Leash(ours)


def read(instance: layout.Instance) -> Kept | None:
    """What was recorded, alive or not."""
    try:
        record = json.loads((instance.state / _RECORD).read_text())
    except FileNotFoundError:
        return None
    return Kept(processes.Process(*record["keeper"]), processes.Process(*record["first"]))


def clear(instance: layout.Instance) -> None:
    """End what may still run and remove all that the instance owns on the machine."""
    kept = read(instance)
    if kept is not None:
        if kept.keeper.pid != os.getpid():
            kept.keeper.signal(signal.SIGKILL)
        kept.first.signal(signal.SIGKILL)
        kept.first.wait(10)
    if instance.state.exists():
        # Without a state folder the namespace is not known to be ours.
        network.delete(instance)
    cgroups.delete(instance)
    _remove(instance.state)


def _remove(state: pathlib.Path) -> None:
    """Remove the state folder, last: while it is there, the rest is known to be ours."""
    deadline = time.monotonic() + 10
    while state.exists():
        # The last mounts of the rig's namespace may hold a folder for a moment.
        shutil.rmtree(state, ignore_errors=True)
        if state.exists():
            if time.monotonic() > deadline:
                raise errors.RigError(f"{state} cannot be removed: see `lsof +D {state}`")
            time.sleep(0.05)
    with contextlib.suppress(OSError):
        state.parent.rmdir()


def main() -> None:
    instance, leash = layout.Instance(sys.argv[1]), int(sys.argv[2])
    signals = _signals(signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP)
    outermost = _enter_namespaces(instance)
    _watch(outermost, signals, leash)
    clear(instance)


def _enter_namespaces(instance: layout.Instance) -> subprocess.Popen[str]:
    """Start the rig's first process and record it beside ourselves."""
    unshare = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    first = [sys.executable, "-m", "tests.cluster.innermost", str(instance.state)]
    outermost = subprocess.Popen(
        ["nsenter", f"--net={instance.network}", *unshare, *first],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent,
        env={**os.environ, "PATH": machine.SEARCH_PATH},
    )
    assert outermost.stdout is not None
    if outermost.stdout.readline().strip() != innermost.READY:
        outermost.kill()
        raise SystemExit(f"exit code {outermost.wait()} before the mounts were made")
    [inside] = processes.children(outermost.pid)
    ourselves = processes.of(os.getpid())
    assert ourselves is not None
    record = {"keeper": dataclasses.astuple(ourselves), "first": dataclasses.astuple(inside)}
    partial = instance.state / f".{_RECORD}"
    partial.write_text(json.dumps(record))
    partial.rename(instance.state / _RECORD)
    return outermost


def _watch(outermost: subprocess.Popen[str], signals: int, leash: int) -> None:
    """Return when the rig is to end."""
    ears = [signals, leash]
    while outermost.poll() is None:
        heard, _, _ = select.select(ears, [], [])
        if leash in heard:
            if os.read(leash, 1) != _RELEASED:
                return
            ears.remove(leash)
        # A byte is a signal's number; a child that was only stopped changes nothing.
        if signals in heard and set(os.read(signals, 64)) - {signal.SIGCHLD}:
            return


def _signals(*numbers: signal.Signals) -> int:
    """A descriptor that becomes readable with each signal's number."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return read_end


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
