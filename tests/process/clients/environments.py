"""An environment for every client, made from its lock when it is first wanted, and then kept.

They lie in the user's cache, named after the lock, so that no client's libraries meet another's or
ours. ``uv`` and ``npm`` install them, from the registries that this machine's user has set up.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "requirements" / "clients"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noctaya" / "clients"
_COMPLETE = ".complete"
# As long as a slow link may take for the largest of them.
_SECONDS = 600


class Unavailable(Exception):
    """A client cannot be had on this machine; the message names it, and what to do."""


def python(name: str) -> Path:
    """The interpreter of the environment locked in ``NAME.txt``."""
    lock = LOCKS / f"{name}.txt"
    folder = _CACHE / f"{name}-{_digest(lock, sys.version)}"
    uv = str(Path(sys.executable).with_name("uv"))
    interpreter = folder / "bin" / "python"
    _once(
        folder,
        name,
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [
            *(uv, "pip", "install", "--quiet", "--python", str(interpreter)),
            *("--require-hashes", "--only-binary", ":all:", "--requirements", str(lock)),
        ],
    )
    return interpreter


def node(name: str) -> Path:
    """The folder of a Node.js project with the packages locked in ``NAME/``."""
    locked = LOCKS / name
    folder = _CACHE / f"{name}-{_digest(locked / 'package-lock.json', program('npm'))}"
    _once(
        folder,
        name,
        ["cp", "-r", f"{locked}/.", str(folder)],
        [program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
    )
    return folder


def program(name: str) -> str:
    """Where a program is that no environment can bring along."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed: Node.js 20 with npm, and curl, are needed")
    return found


def _digest(lock: Path, more: str) -> str:
    return hashlib.sha256(lock.read_bytes() + more.encode()).hexdigest()[:16]


def _once(folder: Path, name: str, *commands: Sequence[str]) -> None:
    """Run ``commands`` in ``folder``, unless they once ended well there."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _COMPLETE).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for command in commands:
            _run(command, folder, name)
        (folder / _COMPLETE).touch()


def _run(command: Sequence[str], folder: Path, name: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as e:
        said = e.stderr.decode(errors="replace").strip()
        raise Unavailable(
            f"the client {name} could not be installed; is its package registry reachable? "
            f"{Path(command[0]).name} said:\n{said}"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the client {name} was not installed within {_SECONDS} s") from None
