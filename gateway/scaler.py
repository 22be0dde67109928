"""KEDA's ExternalScaler, answered from memory.

KEDA acts on a pushed ``true`` at once or drops it, ignores a pushed ``false``, and decides on zero
by polling. So: the present state first on every stream, ``true`` on every rise, again after 1, 2,
5, 5... s while requests wait and no replica answers, and never more often than that, since each
``true`` costs KEDA an API call and puts off scaling to zero. No call may hang: KEDA sets no
deadline and holds a lock meanwhile.
"""

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from gateway.proto import externalscaler_pb2 as pb
from gateway.proto import externalscaler_pb2_grpc as pb_grpc
from gateway.settings import Settings
from gateway.view import View

# Part of a URL in the cluster and of the HPA's spec: constant for good.
METRIC_NAME = "noctaya-demand"
_REPEATS = (1.0, 2.0, 5.0)
# While a replica answers, KEDA has only to learn that the model is in use; it polls every 10 s, and
# a request shorter than that would go unseen.
_WARM_PUSH_INTERVAL = 5.0

_Context = grpc.aio.ServicerContext[Any, Any]


class Scaler(pb_grpc.ExternalScalerServicer):
    """``clock`` is monotonic."""

    def __init__(self, settings: Settings, view: View, *, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._view = view
        self._clock = clock
        self._young_until = clock() + settings.grace
        # Whether the backend was woken for requests that are not ours; None until that shows.
        self._inherited: bool | None = None
        self._streams: set[asyncio.Event] = set()
        self._stopping = asyncio.Event()
        self.seen = False  # Whether KEDA ever called.
        view.on_rise(self._rose)

    @property
    def streams(self) -> int:
        return len(self._streams)

    def stop(self) -> None:
        """Let every stream end with OK: after any other end KEDA waits longer and longer."""
        self._stopping.set()
        self._wake()

    def active(self) -> bool:
        """A young gateway cannot know the streams that run through the one it replaced, so it
        speaks for a backend that was up before anybody wanted it here."""
        if self._view.active():
            return True
        if self._inherited is None and self._view.up():
            self._inherited = True
        return bool(self._inherited) and self._view.up() and self._clock() < self._young_until

    # KEDA's four calls; the names are the contract's.

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: "_Context"
    ) -> pb.GetMetricSpecResponse:
        """Never an error: without a spec KEDA starts no scale loop at all."""
        self._meet(request)
        target = self._settings.target
        spec = pb.MetricSpec(
            metricName=METRIC_NAME, targetSize=math.ceil(target), targetSizeFloat=target
        )
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def IsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: "_Context"
    ) -> pb.IsActiveResponse:
        if not self._meet(request):
            return pb.IsActiveResponse(result=False)
        await self._must_know(context)
        return pb.IsActiveResponse(result=self.active())

    async def GetMetrics(  # noqa: N802
        self, request: pb.GetMetricsRequest, context: "_Context"
    ) -> pb.GetMetricsResponse:
        demand = 0
        if self._meet(request.scaledObjectRef):
            await self._must_know(context)
            demand = self._view.total()
        value = pb.MetricValue(
            metricName=METRIC_NAME, metricValue=demand, metricValueFloat=float(demand)
        )
        return pb.GetMetricsResponse(metricValues=[value])

    async def StreamIsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: "_Context"
    ) -> None:
        if not self._meet(request):
            await context.write(pb.IsActiveResponse(result=False))
            await self._stopping.wait()
            return
        with self._stream() as wake:
            # An error here would slow KEDA's next stream down; silence costs nothing.
            await _first(self._view.known, self._stopping)
            if self._stopping.is_set():
                return
            active = self.active()
            await context.write(pb.IsActiveResponse(result=active))
            pushed_at = self._pushed() if active else -math.inf
            await self._push_rises(wake, context, pushed_at)

    async def _push_rises(self, wake: asyncio.Event, context: "_Context", pushed_at: float) -> None:
        pauses = _pauses()
        while True:
            rose = await _wait(wake, next(pauses) if self._view.in_vain() else None)
            wake.clear()
            if self._stopping.is_set():
                return
            if rose and not self._worth_a_push(pushed_at):
                continue
            if rose:
                pauses = _pauses()
            if rose or self._view.in_vain():
                pushed_at = self._pushed()
                await context.write(pb.IsActiveResponse(result=True))

    def _worth_a_push(self, pushed_at: float) -> bool:
        """Whether a rise is news to a stream that last carried ``true`` at ``pushed_at``."""
        if not self._view.active():
            return False
        ago = self._clock() - pushed_at
        if self._view.ready():
            return ago >= _WARM_PUSH_INTERVAL
        # A cold one whose clients come and go is not told of each of them.
        return self._view.untold() or ago >= _REPEATS[0]

    def _pushed(self) -> float:
        self._view.told(time.monotonic())
        return self._clock()

    @contextlib.contextmanager
    def _stream(self) -> Iterator[asyncio.Event]:
        wake = asyncio.Event()
        self._streams.add(wake)
        try:
            yield wake
        finally:
            self._streams.discard(wake)

    def _rose(self) -> None:
        if self._inherited is None and self._view.known.is_set():
            self._inherited = self._view.up()
        self._wake()

    def _wake(self) -> None:
        for wake in self._streams:
            wake.set()

    def _meet(self, ref: pb.ScaledObjectRef) -> bool:
        """Whether the caller means this service. A stranger gets no error: it would block KEDA's
        reconcile of an object that only has a wrong address."""
        ours = (ref.namespace, ref.name) == (self._settings.namespace, self._settings.service)
        if ours:
            self.seen = True
            self._view.asked()
        return ours

    async def _must_know(self, context: "_Context") -> None:
        if not self._view.known.is_set():
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                "not everything that the demand is made of is known yet",
            )


def _pauses() -> Iterator[float]:
    return itertools.chain(_REPEATS, itertools.repeat(_REPEATS[-1]))


async def _wait(event: asyncio.Event, within: float | None) -> bool:
    """Whether ``event`` was set before ``within`` seconds passed."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _first(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
