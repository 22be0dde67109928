"""Programs that run inside a rig: started, recorded, frozen, stopped.

A program's record lies in the state folder, so that another process (``down``, a second test run)
can stop it too. Records hold pids as this machine sees them.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from tests.cluster import errors, keeper, layout, machine, processes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """One running program. ``leader`` waits outside for ``body``, which is the program itself."""

    name: str
    log: pathlib.Path
    leader: processes.Process
    body: processes.Process

    def alive(self) -> bool:
        return self.body.alive()

    def stop(self, grace: float = 10) -> None:
        """SIGTERM, then SIGKILL; returns when the program is gone. Stopping twice is fine."""
        self.thaw()
        self.body.stop(grace)
        self.leader.wait(2)
        self.leader.signal(signal.SIGKILL)

    def kill(self) -> None:
        """As a power cut would."""
        self.body.signal(signal.SIGKILL)
        self.leader.wait(2)

    def freeze(self) -> None:
        self.body.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        # nsenter stops itself when its child is stopped, and must be woken as well.
        self.body.signal(signal.SIGCONT)
        self.leader.signal(signal.SIGCONT)

    def last_words(self, lines: int = 3) -> str:
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def start(
    instance: layout.Instance,
    name: str,
    argv: Sequence[str | pathlib.PurePath],
    *,
    env: Mapping[str, str] | None = None,
    cwd: pathlib.PurePath = layout.STATE,
) -> Program:
    """Start a program in all of the rig's namespaces, its output in its own log."""
    running = find(instance, name)
    if running is not None and running.alive():
        raise errors.RigError(f"{name} is already running: see {running.log}")
    log = instance.log(name)
    pid = processes.spawn(enter(instance, argv, cwd=cwd), env=environment(env), output=log)
    leader, body = processes.of(pid), _child_of(pid)
    if leader is None or body is None:
        words = log.read_text(errors="replace").strip().splitlines() or ["no output"]
        raise errors.RigError(f"{name} ended as soon as it was started: {words[-1]}")
    program = Program(name=name, log=log, leader=leader, body=body)
    _record(instance, program)
    return program


def run(
    instance: layout.Instance,
    argv: Sequence[str | pathlib.PurePath],
    *,
    env: Mapping[str, str] | None = None,
    stdin: pathlib.Path | None = None,
    timeout: float = 120,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program in all of the rig's namespaces to its end: Service names resolve there."""
    with open(stdin if stdin is not None else os.devnull, "rb") as source:
        done = subprocess.run(
            enter(instance, argv),
            stdin=source,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment(env),
        )
    if check and done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise errors.RigError(f"{pathlib.PurePath(argv[0]).name} in the rig: {words}")
    return done


def find(instance: layout.Instance, name: str) -> Program | None:
    """The program as recorded, running or not."""
    try:
        record = json.loads((_records(instance) / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    return Program(
        name=name,
        log=instance.log(name),
        leader=processes.Process(*record["leader"]),
        body=processes.Process(*record["body"]),
    )


def recorded(instance: layout.Instance) -> list[Program]:
    names = sorted(file.stem for file in _records(instance).glob("*.json"))
    return [found for name in names if (found := find(instance, name)) is not None]


def wait_until(
    what: str, ready: Callable[[], bool], *, program: Program, seconds: float = 60
) -> None:
    """Wait for a program to answer; a RigError as soon as it has ended instead."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(errors.RigError, OSError, subprocess.TimeoutExpired):
            if ready():
                return
        if not program.alive():
            raise errors.RigError(f"{program.name} ended: {program.last_words(1)}")
        if time.monotonic() > deadline:
            raise errors.RigError(f"{what} not within {seconds:.0f} s: see {program.log}")
        time.sleep(0.1)


def enter(
    instance: layout.Instance,
    argv: Sequence[str | pathlib.PurePath],
    *,
    cwd: pathlib.PurePath = layout.STATE,
) -> list[str]:
    """The command line that runs ``argv`` inside."""
    kept = keeper.read(instance)
    if kept is None or not kept.alive():
        raise errors.RigError("no rig is running: start one with `python -m tests.cluster up`")
    inside = ["nsenter", f"--target={kept.first.pid}", "--net", "--mount", "--pid"]
    return [*inside, "env", f"--chdir={cwd}", *(str(word) for word in argv)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(layout.STATE / "bin"), machine.SEARCH_PATH])
    return {**os.environ, "PATH": path, **(extra or {})}


def _child_of(pid: int) -> processes.Process | None:
    while processes.of(pid) is not None:
        if found := processes.children(pid):
            return found[0]
        time.sleep(0.005)
    return None


def _record(instance: layout.Instance, program: Program) -> None:
    folder = _records(instance)
    folder.mkdir(exist_ok=True)
    record = {
        "leader": dataclasses.astuple(program.leader),
        "body": dataclasses.astuple(program.body),
    }
    (folder / f"{program.name}.json").write_text(json.dumps(record))


def _records(instance: layout.Instance) -> pathlib.Path:
    return instance.state / "programs"
