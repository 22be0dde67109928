"""The rig's process number 1: makes the mounts, then reaps whatever is orphaned.

Started by ``keeper`` in fresh network, PID and mount namespaces. When it dies the kernel kills
all that was started in its namespaces, and the last of them takes the mounts along.
"""

import os
import pathlib
import signal
import subprocess
import sys

from tests.cluster import layout

READY = "ready"


def main() -> None:
    state = pathlib.Path(sys.argv[1])
    # Blocked from the start: a child that dies while the mounts are made is reaped below.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _mounts(state)
    sys.stdout.write(READY + "\n")
    sys.stdout.flush()
    while True:
        _reap()
        signal.sigwait({signal.SIGCHLD})


def _mounts(state: pathlib.Path) -> None:
    """Give the rig its own writable places wherever a program insists on a fixed path."""
    resolver = pathlib.Path("/etc/resolv.conf").resolve()
    # Held open, because the new /run may hide the folder that it is in.
    handle = os.open(state, os.O_PATH | os.O_DIRECTORY)

    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    inside = pathlib.Path(layout.STATE)
    inside.mkdir()
    # containerd and kubelet mount below this folder; the bind makes it a mount of its own.
    _mount("--bind", f"/proc/{os.getpid()}/fd/{handle}", str(inside))
    os.close(handle)

    # kubelet's device plugins and the CNI plugins' address book live below /var/lib.
    upper, work = pathlib.Path("/run/var-lib/upper"), pathlib.Path("/run/var-lib/work")
    upper.mkdir(parents=True)
    work.mkdir()
    options = f"lowerdir=/var/lib,upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "-o", options, "overlay", "/var/lib")
    # kubelet keeps /var/log/containers and /var/log/pods.
    _mount("--bind", str(inside / "var-log"), "/var/log")

    # A plain process of the rig resolves names as a Pod does: KEDA dials Services by name.
    if not resolver.exists():
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.touch()
    _mount("--bind", str(inside / "resolv.conf"), str(resolver))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
