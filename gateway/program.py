"""The gateway as a process: its parts put together, started, and stopped in order."""

import asyncio
import contextlib
import ctypes
import gc
import resource
import signal
import sys

import uvloop
from aiohttp import web

from gateway import listening, log, pipeline, view
from gateway.activation import Activation
from gateway.admission import Admission
from gateway.aggregate import Aggregate
from gateway.authentication import KeyFile
from gateway.beats import Beats
from gateway.demand import Demand
from gateway.deps import Deps
from gateway.outcomes import Outcome
from gateway.pool import Pool
from gateway.replicas import ReplicaSet
from gateway.scaler import Scaler
from gateway.scalerserver import ScalerServer
from gateway.server import Server
from gateway.settings import Settings
from gateway.signals import Signals
from gateway.sources import choice
from gateway.status import Status
from gateway.waiting import Estimate
from gateway.watching import Watchers

# What is left this long before the end is answered, so that the answers still get out.
_LAST_WORDS = 5.0
# How late a client that vanished half a minute ago may be noticed.
_LOOK_FOR_VANISHED = 10.0
# From malloc.h. A block of so many bytes is mapped and unmapped by itself, as by glibc at first;
# and so much that is free may stay at the heap's end.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_ON_ITS_OWN = 128 * 1024
_KEPT_FREE = 8 * 1024 * 1024


def run(settings: Settings) -> int:
    """The exit code: 0 after a stop in order, 1 where the gateway could not start or go on."""
    log.capture_libraries()
    _allow_descriptors()
    _give_memory_back()
    gc.set_threshold(50_000, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings))


def _allow_descriptors() -> None:
    """As many as there may be: each request takes two. Container runtimes begin with 1024, for the
    sake of programs that cannot use more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where the system does not stand by what it says, what there was has to do.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _give_memory_back() -> None:
    """glibc serves ever larger blocks from the heap once it has seen some freed, and pieces of
    large bodies then keep more than a hundred MiB of it for good."""
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _ON_ITS_OWN)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)


async def _main(settings: Settings) -> int:
    asked, at_once = _signals()
    gateway = Aggregate(settings) if settings.aggregate else _Gateway(settings)
    try:
        await gateway.start()
    except OSError as e:
        sys.stderr.write(f"noctaya-gateway: {e}\n")
        return 1
    # What was imported and built lives for good; collections need not look at it again.
    gc.collect()
    gc.freeze()
    failed = await gateway.run_until(asked)
    if failed:
        return 1
    await gateway.stop(at_once)
    return 0


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Set by the first and by the second SIGTERM or SIGINT."""
    asked, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            at_once.set()
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return asked, at_once


class _Gateway:
    """Built inside the running loop."""

    def __init__(self, settings: Settings) -> None:
        loop = asyncio.get_running_loop()
        clock = loop.time
        self._settings = settings
        self._clock = clock
        signals = Signals()
        demand = Demand(clock)
        replicas = ReplicaSet()
        estimate = Estimate(
            startup_budget=settings.startup_budget,
            activation_timeout=settings.activation_timeout,
        )
        admission = Admission(slots=settings.max_queue, held_bytes=settings.held_bytes)
        activation = Activation(settings, replicas, demand, estimate, signals.activation_ended)
        pool = Pool()
        self._source = choice.of(
            settings,
            replicas,
            service=settings.backend_service,
            port=settings.backend_port,
            urgent=activation.urgent,
        )
        own = view.Own(demand, replicas, known=self._source.known, clock=clock)
        self._scaler = Scaler(settings, own, clock=clock)
        # The scaler of several gateways is a program of its own. A member that answered KEDA beside
        # it would speak for itself alone.
        self._grpc = None if settings.member else ScalerServer(self._scaler, settings)
        self._server = Server(self._serve, self._bad_request)
        self._status = Status(
            settings=settings,
            signals=signals,
            admission=admission,
            demand=demand,
            replicas=replicas,
            activation=activation,
            pool=pool,
            scaler_streams=lambda: self._scaler.streams,
            client_connections=lambda: len(self._server.connections),
            not_ready=self._not_ready,
        )
        self._watchers = Watchers(demand, replicas, self._status.queue)
        self._deps = Deps(
            loop=loop,
            settings=settings,
            admission=admission,
            demand=demand,
            replicas=replicas,
            activation=activation,
            estimate=estimate,
            beats=Beats(),
            pool=pool,
            signals=signals,
            own=self._status.answer,
            keys=None if settings.api_key_file is None else KeyFile(settings.api_key_file),
            watchers=self._watchers,
            # An aggregate scaler watches from KEDA's first call on.
            scaler_seen=lambda: self._scaler.seen or self._watchers.seen,
        )

    async def start(self) -> None:
        """Raises OSError, in words, where a port cannot be had."""
        with listening.in_words("--listen", self._settings.listen):
            await self._server.listen(self._settings.listen)
        where = {"listen": str(self._settings.listen)}
        if self._grpc is not None:
            await self._grpc.start()
            where["scaler_listen"] = str(self._settings.scaler_listen)
        self._drop_vanished()
        log.info("gateway started", **where)

    async def run_until(self, asked: asyncio.Event) -> bool:
        """Follow the replicas until ``asked`` is set; True where that ended by itself, a bug."""
        source = asyncio.create_task(self._source.run())
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait((source, stop), return_when=asyncio.FIRST_COMPLETED)
        self._following = source
        if source.done():
            log.error("replicas are not followed any more", error=repr(source.exception()))
            return True
        return False

    async def stop(self, at_once: asyncio.Event) -> None:
        """Readiness fails first; then new connections stop, and then, after the grace, what still
        runs is answered. Held requests go on waiting meanwhile, for their replica still comes."""
        started = self._clock()
        self._deps.closing = True
        log.info("gateway stopping", running=len(self._deps.running))
        if self._grpc is not None:
            await self._grpc.stop()
        await _elapses(self._settings.accept_after_term, at_once)
        self._server.stop_listening()
        last_words = started + self._settings.grace - _LAST_WORDS
        while self._deps.running and self._clock() < last_words and not at_once.is_set():
            self._close_idle()
            await _elapses(0.05, at_once)
        await self._answer_the_rest()
        self._following.cancel()
        self._deps.activation.close()
        self._deps.pool.close()
        log.last_words("gateway stopped")

    async def _answer_the_rest(self) -> None:
        for running in list(self._deps.running):
            running.stopped = True
            running.task.cancel()
        until = self._clock() + _LAST_WORDS
        self._watchers.stop()
        while (self._deps.running or self._server.connections) and self._clock() < until:
            self._close_idle()
            await asyncio.sleep(0.02)

    def _close_idle(self) -> None:
        self._server.close_idle(self._busy())

    def _drop_vanished(self) -> None:
        self._server.drop_vanished(self._busy())
        self._deps.loop.call_later(_LOOK_FOR_VANISHED, self._drop_vanished)

    def _busy(self) -> set[object]:
        """Connections that carry a request."""
        requests = {running.call.http.protocol for running in self._deps.running}
        return requests | self._watchers.connections

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        return await pipeline.serve(http, self._deps)

    def _bad_request(self, status: int) -> None:
        self._deps.signals.requests[Outcome.INVALID, str(status)] += 1
        log.info("request", status=status, outcome=Outcome.INVALID)

    def _not_ready(self) -> str | None:
        if self._deps.closing:
            return "the gateway is stopping"
        return self._source.trouble


async def _elapses(seconds: float, cut_short: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cut_short.wait()
