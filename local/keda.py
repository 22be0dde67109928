"""KEDA's part, and the HPA's: the loops that ask the gateway's own scaler and set the replicas.

Where KEDA is careless this is too: a pushed "inactive" is ignored, a failed call changes nothing,
the wait before a stream is opened again doubles unless the stream had ended cleanly.
"""

import asyncio
import contextlib
import dataclasses
import time
from typing import Protocol

import grpc.aio

from gateway.proto import externalscaler_pb2 as messages
from gateway.proto import externalscaler_pb2_grpc as services
from hooks.k8s import objects
from hooks.k8s.objects import Object
from local import concurrently, scaling

# KEDA's waits before it opens a stream again.
FIRST_RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 60.0

# Before the first answer; KEDA backs off far longer, but here the scaler is only just starting.
UNREACHABLE_SECONDS = 0.2

# A gateway that was restarted on this machine listens again within a second or two.
CHANNEL = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 1000))


class Target(Protocol):
    """What is scaled, and who is told."""

    def replicas(self) -> int: ...

    def scale(self, replicas: int) -> None: ...

    def scaler_answers(self, *, active: bool) -> None:
        """The scaler was asked, and said whether there is demand."""


class Keda:
    """Does for one ScaledObject what its latest version says."""

    def __init__(self, address: str, target: Target) -> None:
        self._address = address
        self._target = target
        self._object: Object | None = None
        self._replaced = asyncio.Event()
        # As KEDA keeps it in the status: it outlives every change of the spec.
        self._memory = Memory()

    def follow(self, scaled_object: Object | None) -> None:
        """A change of the spec starts the loops anew; there is none until there is an object."""
        if scaled_object is None or _spec(scaled_object) == _spec(self._object):
            return
        self._object = scaled_object
        self._replaced.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with grpc.aio.insecure_channel(self._address, options=CHANNEL) as channel:
            while True:
                await self._replaced.wait()
                self._replaced.clear()
                assert self._object is not None
                loops = _Loops(self._object, channel, self._target, self._memory)
                await concurrently.first(loops.run(), self._replaced.wait())


@dataclasses.dataclass
class Memory:
    seen: scaling.Observed = dataclasses.field(
        default_factory=lambda: scaling.Observed(created_at=time.monotonic())
    )


def status(*, active: bool) -> Object:
    """What KEDA writes of a ScaledObject whose scaler answers."""
    return {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "ScaledObjectReady",
                "message": "ScaledObject is defined correctly and is ready for scaling",
            },
            {
                "type": "Active",
                "status": "True" if active else "False",
                "reason": "ScalerActive" if active else "ScalerNotActive",
                "message": "",
            },
        ]
    }


class _Loops:
    def __init__(
        self, scaled_object: Object, channel: grpc.aio.Channel, target: Target, memory: Memory
    ) -> None:
        self._rules = scaling.rules(scaled_object)
        self._reference = _reference(scaled_object)
        self._scaler = services.ExternalScalerStub(channel)  # type: ignore[no-untyped-call]
        self._target = target
        self._memory = memory
        self._wishes: list[tuple[float, int]] = []

    async def run(self) -> None:
        while True:
            if await self._metric() is not None:
                break
            await asyncio.sleep(UNREACHABLE_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_pushes())
            tasks.create_task(self._poll())
            tasks.create_task(self._play_hpa())

    async def _follow_pushes(self) -> None:
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                async for answer in self._scaler.StreamIsActive(self._reference):
                    if answer.result:
                        self._active()
                        self._scale(scaling.pushed(self._rules, self._target.replicas()))
                retry = FIRST_RETRY_SECONDS
            except grpc.aio.AioRpcError:
                await asyncio.sleep(retry)
                retry = min(2 * retry, MAX_RETRY_SECONDS)
            else:
                await asyncio.sleep(retry)

    async def _poll(self) -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                answer = await self._scaler.IsActive(self._reference)
                if answer.result:
                    self._active()
                self._target.scaler_answers(active=answer.result)
                self._scale(
                    scaling.polled(
                        self._rules,
                        self._memory.seen,
                        replicas=self._target.replicas(),
                        active=answer.result,
                        now=time.monotonic(),
                    )
                )
            await asyncio.sleep(self._rules.polling_interval)

    async def _play_hpa(self) -> None:
        while True:
            await asyncio.sleep(scaling.HPA_PERIOD_SECONDS)
            replicas = self._target.replicas()
            if not replicas:
                self._wishes.clear()
                continue
            with contextlib.suppress(grpc.aio.AioRpcError):
                recommended = await self._recommended(replicas)
                # As on a cluster, where a write based on an older number is a conflict.
                if self._target.replicas() == replicas:
                    self._scale(recommended)

    async def _recommended(self, replicas: int) -> int:
        now = time.monotonic()
        asked = await self._metric()
        if asked is None:
            return replicas
        request = messages.GetMetricsRequest(
            scaledObjectRef=self._reference, metricName=asked.metricName
        )
        answer = await self._scaler.GetMetrics(request)
        metric = sum(value.metricValueFloat or value.metricValue for value in answer.metricValues)
        wish = scaling.wished(
            self._rules,
            replicas=replicas,
            metric=metric,
            target=asked.targetSizeFloat or asked.targetSize,
        )
        self._wishes = [
            (at, old) for at, old in self._wishes if at >= now - self._rules.scale_down_window
        ]
        self._wishes.append((now, wish))
        return scaling.stabilised(self._rules, self._wishes, replicas=replicas, now=now)

    async def _metric(self) -> messages.MetricSpec | None:
        """None where the scaler does not answer."""
        try:
            answer = await self._scaler.GetMetricSpec(self._reference)
        except grpc.aio.AioRpcError:
            return None
        return next(iter(answer.metricSpecs), None)

    def _active(self) -> None:
        self._memory.seen = dataclasses.replace(self._memory.seen, last_active_at=time.monotonic())

    def _scale(self, replicas: int) -> None:
        if replicas != self._target.replicas():
            self._target.scale(replicas)


def _reference(scaled_object: Object) -> messages.ScaledObjectRef:
    triggers = objects.items(scaled_object, "spec", "triggers")
    return messages.ScaledObjectRef(
        name=objects.text(scaled_object, "metadata", "name"),
        namespace=objects.text(scaled_object, "metadata", "namespace"),
        scalerMetadata=objects.mapping(triggers[0], "metadata"),
    )


def _spec(scaled_object: Object | None) -> Object:
    return objects.mapping(scaled_object, "spec")
