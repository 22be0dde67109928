"""A cold start, from the first request that finds no ready replica to the first that answers.

One prober serves all waiters. The lease keeps the model wanted when they leave; what is probed and
how long is decided by the demand, so that an activation nobody wants any more ends by itself.
"""

import asyncio
import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable

from gateway import log, probing, waiting
from gateway.demand import Demand
from gateway.replicas import Replica, ReplicaSet
from gateway.settings import Settings

# A held request leaves at most this long after its engine first answers; each look at an engine
# that refuses costs the gateway about 0.2 ms.
PROBE_INTERVAL = 0.015
# A replica that refused while others serve: its return is no cold start, so it may wait a moment.
MEND_INTERVAL = 1.0
# How late an activation that nobody wants any more may end while there is no replica to ask.
_NOTHING_TO_ASK = 0.25
# Nothing asked for the scaler and nothing starts: then nobody will start anything.
HOPELESS_AFTER = 30.0


@dataclasses.dataclass(kw_only=True)
class Cycle:
    """One cold start. Its moments are monotonic; ``began_at`` is when it started by the wall clock,
    which may be set while it lasts."""

    started: float
    began_at: float
    signalled_at: float | None = None
    starting_at: float | None = None
    refusal: str = ""
    """What the replica that was asked last answered, in words; empty: none was asked."""

    def seconds(self, now: float) -> float:
        return now - self.started


# Called when a cycle ends: its result (ready or timeout), and its seconds.
Ended = Callable[[str, Cycle, float], None]


class Activation:
    def __init__(
        self,
        settings: Settings,
        replicas: ReplicaSet,
        demand: Demand,
        estimate: waiting.Estimate,
        ended: Ended,
    ) -> None:
        self._settings = settings
        self._replicas = replicas
        self._demand = demand
        self._estimate = estimate
        self._ended = ended
        self._waiters: set[asyncio.Future[None]] = set()
        self._probes: dict[Replica, asyncio.Task[None]] = {}
        self._runner: asyncio.Task[None] | None = None
        self.cycle: Cycle | None = None
        self._changed = asyncio.Event()
        # Set while requests wait: sources of replicas then look more often.
        self.urgent = asyncio.Event()
        replicas.on_change(self._look)

    def begin(self, now: float) -> Cycle:
        """Want the model: take or renew the lease, and look for a replica until it ends."""
        if self.cycle is None:
            self.cycle = Cycle(started=now, began_at=time.time())
            self.urgent.set()
            log.info("activation began")
        self._demand.lease(until=now + self._settings.activation_timeout)
        self._start()
        return self.cycle

    async def wait(self, until: float) -> Replica | None:
        """A ready replica, or None at ``until`` (monotonic). Leaves no trace when cancelled."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(until, _wake, waiter)
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)
        return self._replicas.choose()

    def hopeless(self, *, since: float, now: float, scaler_seen: bool) -> bool:
        """Nobody who could start a replica was ever seen, and none is starting."""
        if scaler_seen or not self.may_be_hopeless or self._replicas.starting():
            return False
        return now - since >= HOPELESS_AFTER

    def obstacle(self) -> str:
        """What stands between the cold start and its end, as far as can be seen from here."""
        if not self._replicas.starting():
            return "it has no replica with an address"
        return self.cycle.refusal if self.cycle is not None else ""

    @property
    def may_be_hopeless(self) -> bool:
        """With replicas at all times there is always one that starts, KEDA or not."""
        return self._settings.min_replicas == 0

    def close(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
        for probe in self._probes.values():
            probe.cancel()

    async def _run(self) -> None:
        """Ask every 15 ms while a cold start is on, and after that, more slowly, only those that
        Kubernetes takes for ready and that refused."""
        loop = asyncio.get_running_loop()
        while self.cycle is not None or self._replicas.ejected():
            if self.cycle is None:
                self._ask(self._replicas.ejected())
                await self._sleep(MEND_INTERVAL)
            elif self._demand.active(loop.time()):
                starting = self._replicas.starting()
                self._ask(starting)
                await asyncio.sleep(PROBE_INTERVAL) if starting else await self._change()
            else:
                self._end("timeout", loop.time())
        self._runner = None
        for probe in self._probes.values():
            probe.cancel()

    async def _sleep(self, seconds: float) -> None:
        """Cut short by the beginning of a cold start."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.urgent.wait()

    async def _change(self) -> None:
        """Until something about the replicas changes, or it is time to see who still waits."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTHING_TO_ASK):
                await self._changed.wait()

    def _ask(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            # Without a request to ask, ready is what Kubernetes says; only one that it says is
            # ready, but that refused, is tried.
            may_ask = self._settings.readiness is not None or replica.listed.ready
            if may_ask and replica not in self._probes:
                task = asyncio.create_task(self._probe(replica))
                self._probes[replica] = task
                task.add_done_callback(functools.partial(self._probed, replica))

    async def _probe(self, replica: Replica) -> None:
        refusal = await probing.refusal(replica.address, self._settings.readiness)
        if self.cycle is not None:
            self.cycle.refusal = refusal
        if not refusal:
            self._replicas.answered(replica)

    def _probed(self, replica: Replica, _: asyncio.Task[None]) -> None:
        del self._probes[replica]

    def _start(self) -> None:
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())

    def _look(self) -> None:
        """Something about the replicas changed."""
        self._changed.set()
        cycle = self.cycle
        if cycle is None:
            if self._replicas.ejected():
                self._start()
            return
        if cycle.starting_at is None and self._replicas.starting():
            cycle.starting_at = time.monotonic()
        if self._replicas.ready():
            now = asyncio.get_running_loop().time()
            self._estimate.learn(cycle.seconds(now))
            self._demand.answered(now)
            self._end("ready", now)
            for waiter in self._waiters:
                _wake(waiter)

    def _end(self, result: str, now: float) -> None:
        cycle, self.cycle = self.cycle, None
        self.urgent.clear()
        if cycle is not None:
            cycle.signalled_at = self._demand.signalled_at
            log.info("activation ended", result=result, seconds=round(cycle.seconds(now), 4))
            self._ended(result, cycle, now)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
