"""The life of a rig: up, and down to nothing.

``up`` on a running rig and ``down`` without one do nothing. Either clears first what a killed rig
left behind, which is known to be ours because the state folder is made before, and removed after,
everything else.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

from tests.cluster import (
    build,
    certificates,
    cgroups,
    control_plane,
    dns,
    errors,
    images,
    keeper,
    layout,
    machine,
    network,
    node,
)

Say = Callable[[str], None]

# What the keeper needs to end a rig by itself: mostly the kernel unmounting Pods' volumes.
_KEEPER_SECONDS = 40


def running(instance: layout.Instance) -> bool:
    kept = keeper.read(instance)
    return kept is not None and kept.alive()


def prepare(say: Say) -> None:
    """Build all that a rig needs and that the cache lacks; nothing is started."""
    machine.require()
    build.everything(say)
    images.tests_own()
    images.own(say)


def up(instance: layout.Instance, say: Say, *, leashed: bool = False) -> None:
    """Start the cluster and return when a Pod can run and names resolve.

    A failure, an interrupt too, takes down what was started; so does a kill on the way, and with
    ``leashed`` this process's end at any later time.
    """
    machine.require()
    if running(instance):
        say(f"{instance.name} is already running")
        return
    build.everything(say)
    with _only_one(instance):
        _clear(instance)
        # Asked before anything is made: a namespace found now is not ours to remove.
        network.require_free(instance)
        try:
            leash = _start(instance, say)
        except BaseException:
            _clear(instance)
            raise
        if not leashed:
            leash.release()


def down(instance: layout.Instance) -> None:
    """End the cluster; nothing of it is left on the machine when this returns."""
    machine.require()
    _clear(instance)
    network.require_free(instance)


def load_own_images(instance: layout.Instance, say: Say) -> None:
    """Build what changed of the project's images and bring them to the node."""
    for reference, archive in images.own(say).items():
        node.load(instance, reference, archive)


def _start(instance: layout.Instance, say: Say) -> keeper.Leash:
    begin = time.monotonic()
    instance.state.mkdir(parents=True)
    instance.state.chmod(0o711)
    for folder in ("logs", "var-log"):
        (instance.state / folder).mkdir()
    (instance.state / "resolv.conf").write_text(dns.RESOLVER)
    build.link_into(instance.state / "bin")
    authority = certificates.Authority(instance.state / "pki")
    authority.create()
    control_plane.identities(authority)
    network.create(instance)
    cgroups.create(instance)
    leash = keeper.start(instance)
    _timed(say, "control plane", lambda: control_plane.start(instance))
    _timed(say, "containerd", lambda: node.containerd(instance))
    for reference, archive in images.tests_own().items():
        node.load(instance, reference, archive)
    _timed(say, "node", lambda: node.start(instance))
    _timed(say, "DNS", lambda: dns.start(instance))
    say(f"{instance.name} is up in {time.monotonic() - begin:.1f} s")
    return leash


def _timed(say: Say, what: str, start: Callable[[], object]) -> None:
    begin = time.monotonic()
    start()
    say(f"{what}: {time.monotonic() - begin:.1f} s")


def _clear(instance: layout.Instance) -> None:
    kept = keeper.read(instance)
    if kept is not None:
        # The keeper clears on its way out; what a killed one left is cleared here.
        kept.keeper.stop(grace=_KEEPER_SECONDS)
    keeper.clear(instance)


@contextlib.contextmanager
def _only_one(instance: layout.Instance) -> Iterator[None]:
    """Two ``up`` at once: the second one says so.

    The lock is an abstract socket's name: it ends with its holder and leaves no file.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(f"\0{instance.name}")
        except OSError:
            raise errors.RigError(
                f"{instance.name} is being started by another process: wait for it"
            ) from None
        yield
