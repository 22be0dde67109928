"""Runs the fetcher and lets it die, or its volume fail, at the n-th change to the volume.

Every call that changes a filesystem is counted, in whatever thread. `kill` is SIGKILL just before
the call. An error is raised from it once, or from all that follow with `ENOSPC+`. With step 0,
which is never reached, the run is ordinary. `EPERM:chmod` fails every call of one kind instead.

A walk over all steps is hundreds of runs, so `Faulty` starts one process that has imported the
fetcher and is forked for each of them: every run is still a process of its own.
"""

import collections.abc
import contextlib
import errno
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import typing

from fetcher import cli
from tests.process.fetcher import rig

_CHANGES = (
    "chmod", "fsync", "mkdir", "open", "pwrite", "rename", "replace", "rmdir", "unlink",
    "utime",
)  # fmt: skip


class Faulty:
    """The process that is forked for each run; its runs' output goes through `folder`."""

    def __init__(self, folder: pathlib.Path, process: subprocess.Popen[str]) -> None:
        self._folder = folder
        self._process = process

    def run(self, fault: str, step: int, *arguments: str, environ: dict[str, str]) -> rig.Run:
        """Run with a fault at a step."""
        self._count.unlink(missing_ok=True)
        asked = {"fault": fault, "step": step, "arguments": arguments, "environ": environ}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        out, err = ((self._folder / name).read_text() for name in ("out", "err"))
        return rig.Run(code=code, out=out, err=err)

    def plain(self, *arguments: str, environ: dict[str, str] | None = None) -> rig.Run:
        """Run without a fault."""
        return self.run("none", 0, *arguments, environ=environ or {})

    @property
    def steps(self) -> int:
        """How many steps the last run had that was not killed."""
        return int(self._count.read_text())

    @property
    def _count(self) -> pathlib.Path:
        return self._folder / "steps"


@contextlib.contextmanager
def forking(folder: pathlib.Path, *, umask: int = -1) -> collections.abc.Iterator[Faulty]:
    """Start the process that is forked."""
    folder.mkdir()
    command = (sys.executable, "-m", "tests.process.fetcher.faulty")
    ends: dict[str, typing.Any] = {"stdin": subprocess.PIPE, "stderr": None}
    process = rig.start(str(folder), command=command, umask=umask, **ends)
    with process:
        yield Faulty(folder, process)
        assert process.stdin is not None
        process.stdin.close()


class _Steps:
    """Counts changes and makes one of them fail."""

    def __init__(self, fault: str, at: int) -> None:
        self.count = 0
        self._fault, _, self._kind = fault.partition(":")
        self._at = at
        self._lock = threading.Lock()

    def next(self, name: str) -> None:
        with self._lock:
            self.count += 1
            lasting = self._fault.endswith("+")
            if self._kind:
                if name != self._kind:
                    return
            elif self.count != self._at and not (lasting and self.count > self._at > 0):
                return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self._fault.rstrip("+"))
        # Removing takes no space.
        if lasting and name in ("unlink", "rmdir", "rename"):
            return
        raise OSError(code, os.strerror(code))


def _wrap(steps: _Steps, name: str) -> None:
    original: collections.abc.Callable[..., object] = getattr(os, name)

    def counted(*args: typing.Any, **kwargs: typing.Any) -> object:
        changes = name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if changes:
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)
            steps.next("fsync of a folder" if folder else name)
        return original(*args, **kwargs)

    setattr(os, name, counted)


def _run(folder: pathlib.Path, asked: dict[str, typing.Any]) -> int:
    """In a process of its own: the command, with what it says in files."""
    for number, name in ((1, "out"), (2, "err")):
        with (folder / name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ |= asked["environ"]
    steps = _Steps(asked["fault"], asked["step"])
    for name in _CHANGES:
        _wrap(steps, name)
    try:
        return cli.main(asked["arguments"])
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 1
    finally:
        count = str(steps.count)
        (folder / "steps").write_text(count)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _run(folder, json.loads(line))
            except BaseException:  # noqa: BLE001 - as an interpreter ends.
                sys.excepthook(*sys.exc_info())
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
