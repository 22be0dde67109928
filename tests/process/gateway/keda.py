"""KEDA's side of the ExternalScaler contract."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from gateway.proto import externalscaler_pb2 as pb
from gateway.proto import externalscaler_pb2_grpc as pb_grpc
from tests.process.gateway import rig

OURS = pb.ScaledObjectRef(name="m", namespace="ns", scalerMetadata={"scalerAddress": "x:9090"})


@contextlib.asynccontextmanager
async def calls(
    where: int | str, credentials: grpc.ChannelCredentials | None = None
) -> AsyncIterator[Any]:
    """The four calls of the scaler on a port, or at a target as gRPC writes it."""
    at = f"127.0.0.1:{where}" if isinstance(where, int) else where
    if credentials is None:
        opened = grpc.aio.insecure_channel(at)
    else:
        opened = grpc.aio.secure_channel(at, credentials)
    async with opened as channel:
        yield pb_grpc.ExternalScalerStub(channel)  # type: ignore[no-untyped-call]


class Pushes:
    """What a StreamIsActive call brought, with the moment of each message."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.messages: list[tuple[float, bool]] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._call:
            self.messages.append((time.monotonic(), message.result))

    async def until(self, count: int, *, within: float = 10) -> list[bool]:
        async def came() -> bool:
            return len(self.messages) >= count

        await rig.eventually(came, within=within, why=lambda: f"{self.messages}")
        return [result for _, result in self.messages]

    async def code(self) -> grpc.StatusCode:
        code: grpc.StatusCode = await self._call.code()
        await self._task
        return code

    async def cancel(self) -> None:
        self._call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def demand(stub: Any) -> tuple[bool, float]:
    active = (await stub.IsActive(OURS)).result
    (value,) = (await stub.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=OURS))).metricValues
    assert value.metricValue == value.metricValueFloat
    return active, value.metricValueFloat
