"""Starts the fetcher as the Job does: a process with an environment and arguments."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import typing

# Secrets and addresses that a developer's shell may hold must not reach a test.
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, typing.Any]:
        """The JSON that the last line holds."""
        found: dict[str, typing.Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def reason(self) -> str:
        """The error line."""
        return self.err.splitlines()[-1]


def environment(environ: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1", **(environ or {})}


COMMAND = (sys.executable, "-m", "fetcher")


def start(
    *arguments: str,
    environ: dict[str, str] | None = None,
    command: tuple[str, ...] = COMMAND,
    **popen: typing.Any,
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command, *arguments],
        env=environment(environ),
        stdout=subprocess.PIPE,
        text=True,
        **{"stderr": subprocess.PIPE, **popen},
    )


def run(
    *arguments: str,
    environ: dict[str, str] | None = None,
    timeout: float = 120,
    **popen: typing.Any,
) -> Run:
    process = start(*arguments, environ=environ, **popen)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Run(code=process.returncode, out=out, err=err)


def stage(
    uri: str,
    cache: pathlib.Path,
    *more: str,
    environ: dict[str, str] | None = None,
    timeout: float = 120,
    **popen: typing.Any,
) -> Run:
    arguments = ("stage", uri, f"--cache={cache}", *more)
    return run(*arguments, environ=environ, timeout=timeout, **popen)


def tree(root: pathlib.Path) -> dict[str, bytes]:
    """Every file below a folder, links not followed, our own folders left out."""
    found: dict[str, bytes] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if (
            not path.is_symlink()
            and path.is_file()
            and not name.startswith((".noctaya/", ".partial-"))
        ):
            found[name] = path.read_bytes()
    return found


def leftovers(cache: pathlib.Path) -> list[str]:
    """Partial folders that are still there."""
    return sorted(path.name for path in cache.glob(".partial-*"))
