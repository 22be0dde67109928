"""Processes that never outlive ``noctaya``, each the leader of a group of its own."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from local import keeper

# Characters of a program's last line that are shown: a few lines of a terminal.
MOST_WORDS = 400

# After SIGKILL only the kernel stands between a process and its end.
KILL_SECONDS = 5.0


class Keeper:
    """The book of running groups, held by a process that outlives this one by a moment."""

    def __init__(self, *folders: Path) -> None:
        # Isolated and without site packages: it is up before the first child is started. A
        # session of its own keeps it alive when the terminal's Ctrl-C reaches our group.
        self._process = subprocess.Popen(  # noqa: S603  Our own file, by our own interpreter.
            [sys.executable, "-I", "-S", keeper.__file__, *map(str, folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def add(self, group: int) -> None:
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        self._write(f"-{group}\n")

    def close(self) -> None:
        """Let it end; it removes its folders and kills what is still in the book."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        # Without its keeper a run is as good as before; only a kill -9 would leave something.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What to run, with its whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]


class Child:
    """One running program and whatever it started in turn."""

    def __init__(self, process: asyncio.subprocess.Process, book: Keeper) -> None:
        self._process = process
        self._book = book
        self.pid = process.pid

    async def exit_code(self) -> int:
        """Wait for its end; 128 + the signal's number where one ended it, as a shell counts.

        What it left in its group is killed then.
        """
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)
        self._book.remove(self.pid)
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float) -> None:
        """SIGTERM to the program alone, as the kubelet does, then SIGKILL to the group."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.exit_code()
                return
        self._signal_group(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self.exit_code()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


async def start(program: Program, log: Path, book: Keeper) -> Child:
    """What it prints goes to the end of ``log``. OSError where the program cannot be run."""
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *program.argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=dict(program.env),
            start_new_session=True,
        )
    # From here a kill -9 of this process leaves nothing; the moment before is microseconds.
    book.add(process.pid)
    return Child(process, book)


def last_words(log: Path, *, limit: int = 4096) -> str:
    """The last line that is not empty, of what a program wrote; safe to show on a terminal."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in words)
    return shown if len(shown) <= MOST_WORDS else f"{shown[:MOST_WORDS]}..."
