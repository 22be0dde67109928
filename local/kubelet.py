"""The kubelet's part: a replica's process is started, probed, restarted, drained and stopped."""

import asyncio
import dataclasses
import datetime
import socket
from collections.abc import Callable
from pathlib import Path

from local import concurrently, drain, http, pods, processes
from local.slices import ADDRESS

# The kubelet's: the first restart follows at once, then 10 s doubling up to 5 min; a process that
# ran for 10 min starts over.
BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
HEALTHY_SECONDS = 600.0

# Until a replica is ready it is asked this often; nobody's request waits for this, since the
# gateway asks on its own.
STARTING_PROBE_SECONDS = 0.1

# When everything is stopped at once, a person waits at the terminal.
HURRY_SECONDS = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """The readiness request of a container, as in its Pod template."""

    path: str
    tls: bool = False
    headers: http.Headers = ()
    period_seconds: float = 10
    failure_threshold: int = 3
    timeout_seconds: float = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What one Pod runs on this machine."""

    pod: str
    program: Callable[[int], processes.Program]
    """The program for a port that it shall listen on."""
    log: Path
    port: int | None
    """None: a free one is found at each start."""
    probe: Probe
    own_port: int | None = None
    """A port that the program listens on after ``port``, which nobody else can know: while it does
    not, whoever answers on ``port`` is somebody else."""
    drain: drain.Drain
    grace_seconds: float
    """From the end of readiness to SIGKILL, drain included."""


class Replica:
    """Lives from ``live`` until ``end``; ``changed`` is called whenever ``seen`` changes."""

    def __init__(self, task: Task, book: processes.Keeper, changed: Callable[[], None]) -> None:
        now = _now()
        self.seen = pods.Replica(pod=task.pod, created_at=now, ready_changed_at=now)
        self.port = task.port or 0
        self.answered = False
        """It has been ready once; an exit before that is a start that failed."""
        self._task = task
        self._book = book
        self._changed = changed
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()

    def end(self, *, hurry: bool = False) -> None:
        """Drain, stop and let ``live`` return; ``hurry`` leaves the drain out, or cuts it short."""
        if hurry:
            self._hurry.set()
        if not self._ending.is_set():
            self._ending.set()
            self._see(ending_since=_now())

    async def live(self) -> None:
        """Run the process and its successors. When this returns nothing of it runs."""
        crashes = 0
        while not self._ending.is_set():
            started_at = _now()
            code, last_words = await self._once()
            if self._ending.is_set():
                break
            crashes = 0 if (_now() - started_at).total_seconds() > HEALTHY_SECONDS else crashes
            delay = backoff(crashes)
            crashes += 1
            self._see(
                started_at=None,
                backoff_seconds=delay,
                last_exit=pods.Exit(
                    code=code, started_at=started_at, at=_now(), last_words=last_words
                ),
            )
            await concurrently.waited(self._ending, seconds=delay)
            self._see(restarts=self.seen.restarts + 1, backoff_seconds=0, refusal="")

    async def _once(self) -> tuple[int, str]:
        """One process from its start to its end, whoever ends it: its exit code and last words."""
        try:
            self.port = self._task.port or _free_port()
            program = self._task.program(self.port)
            child = await processes.start(program, self._task.log, self._book)
        except Exception as e:  # noqa: BLE001  Whatever it is: this start failed, not the runner.
            said = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) else str(e)
            return 127, said  # What a shell answers for a command that cannot be run.
        self._see(started_at=_now())
        async with (
            concurrently.running(self._probe_readiness()),
            concurrently.running(self._stop_at_end(child)),
        ):
            code = await child.exit_code()
        self._set_ready(False)
        return code, processes.last_words(self._task.log)

    async def _stop_at_end(self, child: processes.Child) -> None:
        await self._ending.wait()
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self.answered:
            # No drain is spent on a replica that never answered: nobody can be using it.
            await concurrently.first(drain.hold(self._task.drain, self.port), self._hurry.wait())
        if self._hurry.is_set():
            await child.stop(HURRY_SECONDS)
            return
        left = self._task.grace_seconds - (loop.time() - began)
        # The kubelet, too, leaves a program two seconds after a drain that took the whole grace.
        await concurrently.first(child.stop(max(left, 2.0)), self._stop_in_hurry(child))

    async def _stop_in_hurry(self, child: processes.Child) -> None:
        await self._hurry.wait()
        await child.stop(HURRY_SECONDS)

    async def _probe_readiness(self) -> None:
        probe = self._task.probe
        failures = 0
        while True:
            if await self._answers(probe):
                failures = 0
                self._set_ready(True)
            else:
                failures += 1
                if failures >= probe.failure_threshold:
                    self._set_ready(False)
            ready = self.seen.ready
            await asyncio.sleep(probe.period_seconds if ready else STARTING_PROBE_SECONDS)

    async def _answers(self, probe: Probe) -> bool:
        try:
            if self._task.own_port is not None:
                await http.connect(self._task.own_port, seconds=probe.timeout_seconds)
            status, _ = await http.get(
                self.port,
                probe.path,
                seconds=probe.timeout_seconds,
                headers=probe.headers,
                tls=probe.tls,
            )
        except (OSError, TimeoutError):
            return False
        self._see_refusal(status)
        return 200 <= status < 400

    def _see_refusal(self, status: int) -> None:
        """A program that loads may say so with a 503; any other refusal is worth a word."""
        told = f"GET {self._task.probe.path} is answered {status}"
        refusal = "" if status < 400 or status == 503 else told
        if refusal != self.seen.refusal:
            self._see(refusal=refusal)

    def _set_ready(self, ready: bool) -> None:
        self.answered = self.answered or ready
        if ready != self.seen.ready:
            self._see(ready=ready, ready_changed_at=_now())

    def _see(self, **changes: object) -> None:
        self.seen = dataclasses.replace(self.seen, **changes)  # type: ignore[arg-type]
        self._changed()


def backoff(crashes: int) -> float:
    """The delay before a restart, after so many crashes in a row before this one."""
    if crashes == 0:
        return 0.0
    return min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** (crashes - 1))


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((ADDRESS, 0))
        port: int = sock.getsockname()[1]
        return port


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
