"""``noctaya up``: all services of the manifests, from the first check to the last process gone."""

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hooks.settings import Paths, Settings
from local import manifests, plan, ports, prepare, printing, processes, report
from local.errors import Failure, Problem
from local.service import Machine, Ports, Service

# Only its name stands in the rendered Deployment; nothing is pulled.
GATEWAY_IMAGE = "noctaya/gateway"


def up(paths: Sequence[Path], *, port: int, as_json: bool, logs: Path | None) -> None:
    """Run until a signal or a failure. Raises Problem; nothing is left running either way."""
    known = manifests.load(paths)
    with _machine(logs) as machine:
        now = datetime.datetime.now(datetime.UTC)
        prepared = [
            prepare.prepare(
                document, known, settings=machine.settings, environ=machine.environ, now=now
            )
            for document in known.services
        ]
        printing.note(*known.notes, *(note for one in prepared for note in one.notes))
        pairs = _ports(port, len(prepared))
        run = Run(machine, as_json=as_json)
        asyncio.run(run.live(prepared, pairs))


class Run:
    """All services beside each other, and what is printed of them."""

    def __init__(self, machine: Machine, *, as_json: bool) -> None:
        self._machine = machine
        self._as_json = as_json
        self._told: dict[str, report.Snapshot] = {}
        self._introduced: set[str] = set()
        self._services: list[Service] = []
        self._unsaid: Problem | None = None
        """Why what there was to say could not be printed."""
        self._over = asyncio.Event()

    async def live(self, prepared: Sequence[prepare.Prepared], pairs: Sequence[Ports]) -> None:
        """Raises Failure where no service is left that can be served, or one has no endpoint."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # What was ignored stays so: nohup means it.
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._signalled, number)
        self._services = [
            Service(one, pair, self._machine, self._tell)
            for one, pair in zip(prepared, pairs, strict=True)
        ]
        running = [asyncio.create_task(service.run()) for service in self._services]
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([*running, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*running, over):
                task.cancel()
            # A service never ends by itself: one that did has failed, and is heard of here.
            ended = await asyncio.gather(*running, return_exceptions=True)
            await asyncio.gather(*(service.stop() for service in self._services))
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome
        fatal = [service.fatal for service in self._services if service.fatal]
        if self._unsaid is not None:
            raise self._unsaid
        if fatal:
            raise Failure(*fatal)
        failures = [service.failure for service in self._services]
        if all(failures):
            raise Failure(*failures)

    def _signalled(self, number: signal.Signals) -> None:
        """The first asks for an orderly end; the second does not wait for it."""
        if self._over.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # The keeper ends what is left.
        self._over.set()

    def _tell(self, service: Service, snapshot: report.Snapshot) -> None:
        """Called whenever something may have changed."""
        key = service.prepared.key
        if report.is_news(snapshot, self._told.get(key), as_json=self._as_json):
            self._told[key] = snapshot
            line = report.json_line if self._as_json else report.line
            self._print(line(snapshot, at=datetime.datetime.now().astimezone()))
        if service.is_ready and key not in self._introduced and not self._as_json:
            self._introduced.add(key)
            model, keyed = service.prepared.served_model, service.prepared.api_key is not None
            self._print(
                report.introduction(service.endpoint, model, self._machine.logs, keyed=keyed)
            )
        if all(e.failure for e in self._services) or any(e.fatal for e in self._services):
            self._over.set()

    def _print(self, text: str) -> None:
        try:
            printing.say(text)
        except Failure as e:
            self._unsaid = e
            self._over.set()
        except BrokenPipeError:
            self._over.set()  # Nobody reads any more: whoever wanted this is gone.


@contextlib.contextmanager
def _machine(logs: Path | None) -> Iterator[Machine]:
    """A folder for the run and the keeper that removes it, however the run ends."""
    try:
        state = Path(tempfile.mkdtemp(prefix="noctaya-"))
    except OSError as e:
        raise Failure(f"no folder for temporary files, see TMPDIR: {e.strerror}") from e
    book = processes.Keeper(state)
    scratch = state / "scratch"
    try:
        _make_folder(scratch, "")
        if logs is not None:
            _make_folder(logs, "--log-dir ")
        yield Machine(
            environ=plan.environment(os.environ),
            logs=logs or state,
            state=state,
            book=book,
            settings=_settings(_paths(os.environ, scratch)),
        )
    finally:
        book.close()
        shutil.rmtree(state, ignore_errors=True)  # There only where the keeper was killed.


def _settings(paths: Paths) -> Settings:
    """This machine is the only node, and its one cache serves every strategy."""
    return Settings(gateway_image=GATEWAY_IMAGE, host_path_root=paths.cache, paths=paths)


def _paths(environ: Mapping[str, str], scratch: Path) -> Paths:
    """Where engines of this machine keep what a Pod keeps on volumes."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Paths(cache=str(Path(cache) / "noctaya"), scratch=str(scratch))


def _make_folder(folder: Path, flag: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Failure(f"{flag}{folder}: cannot be made: {e.strerror}") from e


def _ports(first: int, count: int) -> list[Ports]:
    """One in a row for each endpoint, and any free one for each scaler."""
    with contextlib.ExitStack() as held:
        return [
            Ports(http=ports.take(held, port), scaler=ports.take(held, 0))
            for port in range(first, first + count)
        ]
