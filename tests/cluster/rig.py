"""The life of a rig: up, and down to nothing.

``up`` on a running rig and ``down`` without one do nothing. Either clears first what a killed rig
left behind, which is known to be ours because the state folder is made before, and removed after,
everything else.
"""

import contextlib
import fcntl
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

    A failure, an interrupt too, takes down what was started.
    """
    machine.require()
    if running(instance):
        say(f"{instance.name} is already running")
        return
    build.everything(say)
    with _only_one(instance):
        _clear(instance)
        try:
            _start(instance, say, leashed=leashed)
        except BaseException:
            _clear(instance)
            raise


def down(instance: layout.Instance) -> None:
    """End the cluster; nothing of it is left on the machine when this returns."""
    machine.require()
    if not instance.state.exists() and instance.network.exists():
        raise errors.RigError(network.left_over(instance))
    _clear(instance)


def load_own_images(instance: layout.Instance, say: Say) -> None:
    """Build what changed of the project's images and bring them to the node."""
    for reference, archive in images.own(say).items():
        node.load(instance, reference, archive)


def _start(instance: layout.Instance, say: Say, *, leashed: bool) -> None:
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
    keeper.start(instance, leashed=leashed)
    _timed(say, "control plane", lambda: control_plane.start(instance))
    _timed(say, "containerd", lambda: node.containerd(instance))
    for reference, archive in images.tests_own().items():
        node.load(instance, reference, archive)
    _timed(say, "node", lambda: node.start(instance))
    _timed(say, "DNS", lambda: dns.start(instance))
    say(f"{instance.name} is up in {time.monotonic() - begin:.1f} s")


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
    """Two ``up`` at once: the second one says so."""
    lock = layout.cache() / f"{instance.name}.lock"
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.RigError(
                f"{instance.name} is being started by another process: wait for it"
            ) from None
        yield
    lock.unlink(missing_ok=True)
