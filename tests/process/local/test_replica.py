"""The kubelet's part with real processes: drained, stopped, killed, started again."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from local import drain, kubelet, plan, processes
from local.drain import Drain
from local.kubelet import Replica
from tests.process.local.conftest import wait_until_gone

ENGINE = [str(Path(sys.executable).with_name("noctaya-echo"))]

# Longer than any test may take: that it is not waited out is what they show.
LONG = Drain(seconds=60, metrics_path="/metrics", gauges=("vllm:num_requests_running",))


PROBE = kubelet.Probe(path="/health")


@pytest.fixture
def book() -> Iterator[processes.Keeper]:
    keeper = processes.Keeper()
    yield keeper
    keeper.close()


class Pod:
    """One replica that lives beside the test."""

    def __init__(self, task: kubelet.Task, book: processes.Keeper) -> None:
        self._changed = asyncio.Event()
        self.replica = Replica(task, book, self._changed.set)
        self.living = asyncio.create_task(self.replica.live())

    async def until(self, what: str, *, holds: bool = True) -> None:
        async with asyncio.timeout(30):
            while bool(getattr(self.replica.seen, what)) != holds:
                self._changed.clear()
                await self._changed.wait()

    async def ends(self, *, within: float) -> float:
        """How long it takes from now."""
        began = time.monotonic()
        async with asyncio.timeout(within):
            await self.living
        return time.monotonic() - began


@contextlib.asynccontextmanager
async def running(
    book: processes.Keeper,
    folder: Path,
    argv: list[str],
    *,
    drained: Drain = drain.NONE,
    grace: float = 30,
    probe: kubelet.Probe = PROBE,
) -> AsyncIterator[Pod]:
    def program(port: int) -> processes.Program:
        own = {"HOST": "127.0.0.1", "PORT": str(port)}
        return processes.Program(argv=argv, env={**plan.environment(os.environ), **own})

    task = kubelet.Task(
        pod="m-1",
        program=program,
        log=folder / "log",
        port=None,
        probe=probe,
        drain=drained,
        grace_seconds=grace,
    )
    pod = Pod(task, book)
    try:
        yield pod
    finally:
        pod.replica.end(hurry=True)
        await pod.living


async def test_a_replica_that_never_answered_is_not_drained(
    book: processes.Keeper, tmp_path: Path
) -> None:
    argv = [*ENGINE, "--load-seconds", "60"]
    async with running(book, tmp_path, argv, drained=LONG) as pod:
        await pod.until("started_at")
        await asyncio.sleep(3)  # Past its imports: a signal there ends any program.
        pod.replica.end()
        assert await pod.ends(within=10) < 5


async def test_a_busy_replica_finishes_its_request_before_it_is_stopped(
    book: processes.Keeper, tmp_path: Path
) -> None:
    argv = [*ENGINE, "--tokens-per-second", "10"]
    async with running(book, tmp_path, argv, drained=LONG) as pod, aiohttp.ClientSession() as http:
        await pod.until("ready")
        url = f"http://127.0.0.1:{pod.replica.port}/v1/completions"
        body = {"prompt": "Hello", "max_tokens": 40, "ignore_eos": True}

        async def ask() -> str:
            async with http.post(url, json=body) as answer:
                return str((await answer.json())["choices"][0]["finish_reason"])

        asking = asyncio.create_task(ask())
        await asyncio.sleep(0.5)
        pod.replica.end()
        took = await pod.ends(within=45)
        assert await asking == "length"
        # Four seconds of tokens, and ten quiet ones.
        assert took > 3 + drain.QUIET_SECONDS


async def test_an_idle_replica_is_stopped_when_it_has_been_quiet_for_a_while(
    book: processes.Keeper, tmp_path: Path
) -> None:
    async with running(book, tmp_path, ENGINE, drained=LONG) as pod:
        await pod.until("ready")
        pod.replica.end()
        assert drain.QUIET_SECONDS < await pod.ends(within=45) < drain.QUIET_SECONDS + 15


async def test_a_hurry_cuts_a_drain_short(book: processes.Keeper, tmp_path: Path) -> None:
    async with running(book, tmp_path, ENGINE, drained=LONG) as pod:
        await pod.until("ready")
        pod.replica.end()
        await asyncio.sleep(1)
        assert not pod.living.done()
        pod.replica.end(hurry=True)
        assert await pod.ends(within=10) < 5


async def test_what_ignores_the_signal_is_killed_after_its_grace_with_all_its_own(
    book: processes.Keeper, tmp_path: Path
) -> None:
    own = ["sleep", f"1000.{os.getpid()}"]
    script = f"trap '' TERM; {' '.join(own)} & while true; do sleep 0.1; done"
    async with running(book, tmp_path, ["sh", "-c", script], grace=2) as pod:
        await pod.until("started_at")
        await asyncio.sleep(0.5)
        mine = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == own]
        assert mine
        pod.replica.end()
        assert 1.5 < await pod.ends(within=10) < 6
        wait_until_gone(mine, seconds=2)


async def test_a_process_that_ends_is_started_at_once_and_then_after_ten_seconds(
    book: processes.Keeper, tmp_path: Path
) -> None:
    script = "echo $$ >> starts; echo broken; exit 5"
    async with running(book, tmp_path, ["sh", "-c", f"cd {tmp_path}; {script}"]) as pod:
        await pod.until("backoff_seconds")
        seen = pod.replica.seen
        assert seen.backoff_seconds == kubelet.BACKOFF_SECONDS
        assert seen.started_at is None
        assert seen.restarts == 1
        assert seen.last_exit is not None
        assert (seen.last_exit.code, seen.last_exit.last_words) == (5, "broken")
        assert len((tmp_path / "starts").read_text().split()) == 2


async def test_a_program_that_is_not_there_counts_as_an_exit(
    book: processes.Keeper, tmp_path: Path
) -> None:
    async with running(book, tmp_path, ["no-such-program"]) as pod:
        await pod.until("last_exit")
        ended = pod.replica.seen.last_exit
        assert ended is not None
        assert ended.code == 127
        assert ended.last_words == "no-such-program: No such file or directory"


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_a_start_that_fails_in_any_way_counts_as_an_exit(
    book: processes.Keeper, tmp_path: Path, word: str
) -> None:
    async with running(book, tmp_path, [*ENGINE, word]) as pod:
        await pod.until("last_exit")
        assert pod.replica.seen.last_exit is not None
        assert pod.replica.seen.last_exit.code == 127
        assert pod.replica.seen.last_exit.last_words != ""
        assert not pod.living.done()


async def test_a_frozen_replica_is_unready_until_it_answers_again(
    book: processes.Keeper, tmp_path: Path
) -> None:
    often = kubelet.Probe(path="/health", period_seconds=0.2, timeout_seconds=0.5)
    async with running(book, tmp_path, ENGINE, probe=often) as pod:
        await pod.until("ready")
        (engine,) = (one for one in psutil.Process().children() if ENGINE[0] in one.cmdline())
        engine.suspend()
        try:
            await pod.until("ready", holds=False)
        finally:
            engine.resume()
        await pod.until("ready")
        assert pod.replica.seen.restarts == 0


def test_delays_double_up_to_five_minutes() -> None:
    delays = [kubelet.backoff(crashes) for crashes in range(9)]
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


async def test_what_the_readiness_request_is_answered_is_kept_where_it_looks_like_a_mistake(
    book: processes.Keeper, tmp_path: Path
) -> None:
    wrong = kubelet.Probe(path="/healthy")
    async with running(book, tmp_path, ENGINE, probe=wrong) as pod:
        await pod.until("refusal")
        assert pod.replica.seen.refusal == "GET /healthy is answered 404"
        assert not pod.replica.seen.ready
    async with running(book, tmp_path, ENGINE) as pod:
        await pod.until("ready")
        assert pod.replica.seen.refusal == ""


async def test_a_program_that_says_503_while_it_loads_makes_no_mistake(
    book: processes.Keeper, tmp_path: Path
) -> None:
    script = (
        "import http.server, os\n"
        "class Engine(http.server.BaseHTTPRequestHandler):\n"
        "    statuses = [503] * 5\n"
        "    def do_GET(self):\n"
        "        self.send_error(self.statuses.pop() if self.statuses else 404)\n"
        "http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Engine).serve_forever()"
    )
    async with running(book, tmp_path, [sys.executable, "-c", script]) as pod:
        await pod.until("refusal")
        assert pod.replica.seen.refusal == "GET /health is answered 404"
