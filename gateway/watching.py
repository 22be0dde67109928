"""``/noctaya/queue?watch=true``: the state first, then each change, as one JSON object a line.

The aggregate scaler reads it. Changes that come within a few milliseconds share a line, and a line
is repeated when nothing changes, so that silence means a lost connection.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from gateway.calls import Call
from gateway.demand import Demand
from gateway.replicas import ReplicaSet

_COALESCE = 0.02
REPEAT = 2.0
_SLOW_READER = 10.0


class Watchers:
    def __init__(
        self, demand: Demand, replicas: ReplicaSet, state: Callable[[], dict[str, Any]]
    ) -> None:
        self._demand = demand
        self._state = state
        self._wakes: dict[asyncio.Event, object] = {}
        self._stopped = False
        self.seen = False  # Whether anybody ever watched.
        demand.on_change(self._wake)
        replicas.on_change(self._wake)

    @property
    def connections(self) -> set[object]:
        """Of those who watch now: they end with the gateway, after its last request."""
        return set(self._wakes.values())

    def stop(self) -> None:
        """End every stream after a last line: the gateway's last request has ended."""
        self._stopped = True
        self._wake()

    async def serve(self, call: Call) -> None:
        """Until the watcher leaves, on which aiohttp cancels this, or the gateway ends."""
        wake = asyncio.Event()
        self._wakes[wake] = call.http.protocol
        self.seen = True
        try:
            call.answer.head(200, b"OK", [(b"content-type", b"application/x-ndjson")], length=None)
            while True:
                wake.clear()
                self._write(call)
                if self._stopped:
                    call.answer.finish()
                    return
                if call.answer.stalled:
                    await call.answer.drain(within=_SLOW_READER)
                await asyncio.sleep(_COALESCE)
                await _until(wake, REPEAT)
        finally:
            del self._wakes[wake]

    def _write(self, call: Call) -> None:
        state = self._state()
        call.answer.write(json.dumps(state, separators=(",", ":")).encode() + b"\n")
        if state["active"]:
            # Whoever watches speaks to KEDA at once.
            self._demand.signalled(time.monotonic())

    def _wake(self) -> None:
        for wake in self._wakes:
            wake.set()


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
