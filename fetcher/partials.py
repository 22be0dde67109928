"""Partial folders: one owner at a time, found again by the next run when the owner is gone.

    CACHE/.partial-<key>-<random>/owner.json    who holds it, rewritten every 10 s
    CACHE/.partial-<key>-<random>/files/        what becomes the model's folder by one rename

No lock is taken: on network filesystems flock may do nothing, or outlive its holder. Ownership is
the folder's name instead. Renaming it takes it away from the owner, of several takers one wins,
and an owner whose folder is gone stops: it looks before each block and writes nothing once it has
not heard from the volume for as long as others wait before they take over.

A living owner is told from a dead one by its signs, not by clocks, which differ between nodes and
jump: a folder is free when its owner said so, when its owner was a process of this very machine
and is gone, or when its sign has not changed while this run watched.
"""

import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import stat
import threading
import time

from fetcher import disk, markers

PREFIX = ".partial-"
_OWNER = "owner.json"
FILES = "files"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds. An owner signs every `sign`; others take over after `silent` without a new sign.

    A sign that is already older than `silent` by the volume's own clock is watched for `confirm`
    only: longer than one `sign`, so that a clock that jumped does not make a living owner dead.
    `abandoned` is when another model's leftovers are removed: well beyond the longest pause that a
    Job makes between its tries (6 minutes), after which they would have been taken up.
    """

    sign: float = 10.0
    silent: float = 120.0
    confirm: float = 15.0
    abandoned: float = 3600.0
    look: float = 1.0

    @property
    def fence(self) -> float:
        """When an owner that could not sign stops writing: well before others take over."""
        return self.silent * 0.75


class Lost(Exception):
    """Another run took the folder over."""


class Partial:
    """A partial folder that this run owns."""

    def __init__(self, path: pathlib.Path, timing: Timing) -> None:
        self.path = path
        self.files = path / FILES
        self._timing = timing
        self._signed_at = _now()
        self._lost = False
        self._done = threading.Event()
        self._count = 0
        self._signer = threading.Thread(target=self._keep_signing, name="owner", daemon=True)

    def start(self) -> None:
        """Begin to sign as the owner."""
        self._signer.start()

    def may_write(self) -> None:
        """Raise `Lost` unless this run still owns the folder for sure."""
        if self._lost or _now() - self._signed_at > self._timing.fence:
            raise Lost

    def sign(self, *, released: bool = False) -> None:
        """Say that the owner lives, or that it is done with the folder."""
        started = _now()
        self._count += 1
        body = {**_identity(), "count": self._count, "released": released}
        # Not replaced by rename: the folder's name is the ownership, so the file must not be made
        # anew in a folder of that name that somebody else may have put there.
        fd = os.open(self.path / _OWNER, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(fd, json.dumps(body).encode().ljust(512), 0)
            os.utime(fd)
        finally:
            os.close(fd)
        self._signed_at = started

    def release(self) -> None:
        """Stop signing and leave the folder, if anything is in it, to whoever comes next."""
        self._end()
        with contextlib.suppress(OSError):
            if not os.listdir(self.files):
                remove_tree(self.path)
            else:
                self.sign(released=True)

    def remove(self) -> None:
        """Stop signing and take the folder away."""
        self._end()
        remove_tree(self.path)

    def _end(self) -> None:
        self._done.set()
        if self._signer.is_alive():
            self._signer.join()

    def _keep_signing(self) -> None:
        while not self._done.wait(self._timing.sign):
            try:
                self.sign()
            except FileNotFoundError:
                self._lost = True
                return
            except OSError:
                # A volume that is full or away for a moment; the fence stops us if it stays so.
                continue


def hold(
    root: pathlib.Path,
    key: str,
    timing: Timing,
    *,
    waiting: collections.abc.Callable[[str], bool],
) -> Partial | None:
    """Own a partial folder for `key`: one whose owner is gone, else a new one.

    While another run lives, `waiting` is called with who it is, about every `timing.look`
    seconds; when it returns True this gives up and returns None.
    """
    watched: dict[str, _Watch] = {}
    while True:
        living: str | None = None
        for path in _folders(root, key):
            watch = watched.setdefault(path.name, _Watch())
            if not watch.gone(path, root, timing):
                living = living or watch.holder
            elif (taken := _take_over(path, key, timing)) is not None:
                _remove_others(root, key, taken, timing)
                return taken
        if living is None:
            mine = _create(root, key, timing)
            if (living := _other(root, mine, key, timing)) is None:
                return mine
            # Made at the same moment. Whoever sees the other steps back; if both do, they try
            # again, and not at the same moment.
            mine.remove()
            time.sleep(random.uniform(0, timing.look))  # noqa: S311 - jitter, not a secret.
        if waiting(living):
            return None


def collect(root: pathlib.Path, timing: Timing, *, stop: threading.Event) -> None:
    """Remove what runs for other models left behind long ago.

    Only where there is such a thing this takes time: `timing.confirm`, to see that nobody signs.
    """
    now = _volume_now(root)
    old = {
        path: sign
        for path in _folders(root, "")
        if (sign := _sign(path) or _unsigned(path)) and now - sign[1] / 1e9 > timing.abandoned
    }
    if not old or stop.wait(timing.confirm):
        return
    for path, sign in old.items():
        if (_sign(path) or _unsigned(path)) == sign:
            _doom(path)


def remove_tree(path: pathlib.Path) -> None:
    """Remove a folder and what is in it; links are removed, not followed."""
    shutil.rmtree(path, ignore_errors=True)


def _doom(path: pathlib.Path) -> None:
    """Remove a folder, unless another run takes it first: renaming decides who has it."""
    doomed = path.with_name(f"{PREFIX}removed-{os.urandom(8).hex()}")
    with contextlib.suppress(OSError):
        path.rename(doomed)
        remove_tree(doomed)


def _sign(path: pathlib.Path) -> tuple[bytes, int] | None:
    """An owner's last sign; None where none can be read."""
    try:
        found = path / _OWNER
        return found.read_bytes(), found.lstat().st_mtime_ns
    except OSError:
        return None


def _unsigned(path: pathlib.Path) -> tuple[bytes, int] | None:
    """For a folder whose maker was killed before it signed: when it was made."""
    try:
        return b"", path.lstat().st_mtime_ns
    except OSError:
        return None


def _other(root: pathlib.Path, mine: Partial, key: str, timing: Timing) -> str | None:
    """Who else has a folder for the same key and may be alive."""
    for path in _folders(root, key):
        watch = _Watch()
        if path != mine.path and not watch.gone(path, root, timing):
            return watch.holder
    return None


class _Watch:
    """What has been seen of a folder's owner so far."""

    def __init__(self) -> None:
        self.holder = "another run"
        self._sign: tuple[bytes, int] | None = None
        self._since = _now()

    def gone(self, path: pathlib.Path, root: pathlib.Path, timing: Timing) -> bool:
        """Whether the owner is gone for sure, after one more look."""
        # None: taken over by another run just now.
        sign = _sign(path) or (b"", 0)
        owner = _parse(sign[0])
        self.holder = str(owner.get("host") or "another run")
        if owner.get("released") is True or _died_here(owner):
            return True
        if sign != self._sign:
            self._sign, self._since = sign, _now()
        old = sign[1] and _volume_now(root) - sign[1] / 1e9 > timing.silent
        return _now() - self._since > (timing.confirm if old else timing.silent)


def _folders(root: pathlib.Path, key: str) -> list[pathlib.Path]:
    prefix = f"{PREFIX}{key}-" if key else PREFIX
    with disk.named(root):
        found = [root / name for name in os.listdir(root) if name.startswith(prefix)]
    return sorted(path for path in found if stat.S_ISDIR(_mode(path)))


def _mode(path: pathlib.Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _take_over(path: pathlib.Path, key: str, timing: Timing) -> Partial | None:
    """Take a folder by renaming it; None if another run was faster."""
    mine = path.with_name(f"{PREFIX}{key}-{os.urandom(8).hex()}")
    try:
        path.rename(mine)
    except FileNotFoundError:
        return None
    except OSError:
        with disk.named(path):
            raise
    with disk.named(mine):
        if not stat.S_ISDIR(_mode(mine / FILES)):
            (mine / FILES).unlink(missing_ok=True)
            _make(mine / FILES)
        if not stat.S_ISREG(_mode(mine / _OWNER)):
            os.close(disk.open_new(mine / _OWNER))
        partial = Partial(mine, timing)
        partial.sign()
    partial.start()
    return partial


def _create(root: pathlib.Path, key: str, timing: Timing) -> Partial:
    """Make a folder that carries its owner's sign from the moment it has a key's name."""
    name = os.urandom(8).hex()
    unsigned, path = root / f"{PREFIX}new-{name}", root / f"{PREFIX}{key}-{name}"
    with disk.named(root):
        # Readable for us only: on a shared volume nobody can plant a link inside. The folder
        # within, which is what readers get, is open to all.
        unsigned.mkdir(0o700)
        try:
            _make(unsigned / FILES)
            os.close(disk.open_new(unsigned / _OWNER))
            Partial(unsigned, timing).sign()
            unsigned.rename(path)
        except BaseException:
            remove_tree(unsigned)
            raise
    partial = Partial(path, timing)
    partial.start()
    return partial


def _make(path: pathlib.Path) -> None:
    path.mkdir()
    disk.set_mode(path, 0o755 | (path.stat().st_mode & stat.S_ISGID))


def _remove_others(root: pathlib.Path, key: str, mine: Partial, timing: Timing) -> None:
    """Of several leftovers one is enough."""
    for path in _folders(root, key):
        if path != mine.path and _Watch().gone(path, root, timing):
            _doom(path)


def _identity() -> dict[str, object]:
    """Enough to know a process again from the same machine, and to name it to a person."""
    return {"host": os.uname().nodename, "pid": os.getpid(), **_here(os.getpid())}


def _here(pid: int) -> dict[str, object]:
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
        # Field 22, counted behind the name, which may hold spaces: when the process started.
        started = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return {}
    return {"boot": boot, "space": space, "started": started}


def _died_here(owner: dict[str, object]) -> bool:
    """Whether the owner was a process in this kernel's same process space, and is no more."""
    mine = _here(os.getpid())
    pid = owner.get("pid")
    same = mine and all(owner.get(name) == mine[name] for name in ("boot", "space"))
    if not same or not isinstance(pid, int):
        return False
    return _here(pid).get("started") != owner.get("started")


def _parse(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _now() -> float:
    """Seconds that also pass while the machine sleeps, which others count as silence."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _volume_now(root: pathlib.Path) -> float:
    """What the volume's own clock says, so that signs are compared with the clock they carry."""
    try:
        folder = disk.make_folders(root, pathlib.PurePosixPath(markers.FOLDER))
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(folder / "clock", flags, 0o644)
    except OSError:
        return time.time()  # A full volume can still be judged, by this machine's clock.
    try:
        os.utime(fd)
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)
