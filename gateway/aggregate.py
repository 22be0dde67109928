"""The aggregate scaler: one per service where several gateways share its requests.

It answers KEDA with the sum of what the gateways say. It holds no state that they could not tell
again, so it may be replaced at any time.
"""

import asyncio
from typing import Any

from aiohttp import web

from gateway import errors, listening, log, members, route
from gateway.calls import Call
from gateway.outcomes import Outcome
from gateway.replicas import ReplicaSet
from gateway.scaler import Scaler
from gateway.scalerserver import ScalerServer
from gateway.server import Server
from gateway.settings import Settings
from gateway.signals import Exposition, Signals
from gateway.sources import choice
from gateway.subscriptions import Subscriptions


class Aggregate:
    """Built inside the running loop. Its replicas are gateways: those of the service's own name."""

    def __init__(self, settings: Settings) -> None:
        clock = asyncio.get_running_loop().time
        self._settings = settings
        self._gateways = ReplicaSet()
        # Gateways are found at leisure: nobody waits for a new one.
        self._source = choice.of(
            settings, self._gateways, service=settings.service, port="http", urgent=asyncio.Event()
        )
        self._members = members.Members(clock=clock, begin=lambda: self._subscriptions.begin())
        self._subscriptions = Subscriptions(self._gateways, self._source, self._members)
        self._scaler = Scaler(settings, self._members, clock=clock)
        self._grpc = ScalerServer(self._scaler, settings)
        self._http = Server(self._serve, lambda _: None)
        self._exposition = Exposition(Signals(), self._gauges)
        self._stopping = False

    async def start(self) -> None:
        """Raises OSError, in words, where a port cannot be had."""
        with listening.in_words("--listen", self._settings.listen):
            await self._http.listen(self._settings.listen)
        await self._grpc.start()
        log.info("aggregate scaler started", scaler_listen=str(self._settings.scaler_listen))

    async def run_until(self, asked: asyncio.Event) -> bool:
        """Follow the gateways until ``asked`` is set; True where that ended by itself, a bug."""
        following = [
            asyncio.create_task(self._source.run()),
            asyncio.create_task(self._subscriptions.run()),
        ]
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait((*following, stop), return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in following if task.done()]
        for task in failed:
            log.error("gateways are not followed any more", error=repr(task.exception()))
        self._following = following
        return bool(failed)

    async def stop(self, at_once: asyncio.Event) -> None:
        """There is nothing to wait for: KEDA comes back to the next one."""
        self._stopping = True
        self._http.stop_listening()
        await self._grpc.stop()
        for task in self._following:
            task.cancel()
        self._http.close_idle(set())
        log.last_words("aggregate scaler stopped")

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        target = route.target(http.method, http.raw_path, extra_paths=frozenset())
        call = Call(http, target)
        reason = self._source.trouble or ("it is stopping" if self._stopping else None)
        if target.kind is not route.Kind.OWN:
            call.answer.refuse(_nowhere(), None)
        elif target.path == "/metrics":
            kind = b"text/plain; version=1.0.0; charset=utf-8"
            call.answer.text(200, kind, self._exposition.text())
        elif target.path == "/noctaya/queue":
            call.answer.json(200, self._state())
        elif target.path == "/readyz" and reason is not None:
            call.answer.refuse(_not_ready(reason), None)
        else:
            call.answer.json(200, {"status": "ok"})
        return call.answer.response()

    def _state(self) -> dict[str, Any]:
        fresh = self._members.fresh()
        return {
            "service": self._settings.service,
            "namespace": self._settings.namespace,
            "demand": self._members.total(),
            "waiting": sum(said.waiting for said in fresh.values()),
            "inFlight": sum(said.demand - said.waiting for said in fresh.values()),
            "active": self._members.active(),
            "members": {str(member): said.demand for member, said in fresh.items()},
            "scalerConnected": self._scaler.streams > 0,
        }

    def _gauges(self) -> dict[str, float]:
        return {
            "demand": self._members.total(),
            "active": int(self._members.active()),
            "members": len(self._members.fresh()),
            "scaler_streams": self._scaler.streams,
            "tasks": len(asyncio.all_tasks()),
        }


def _nowhere() -> errors.Refusal:
    return errors.Refusal(
        404,
        "unknown_path",
        "this is the aggregate scaler; requests for the model go to its gateways",
        outcome=Outcome.NO_ROUTE,
        kind="invalid_request_error",
        close=True,
    )


def _not_ready(reason: str) -> errors.Refusal:
    return errors.Refusal(503, "not_ready", reason, outcome=Outcome.COLD)
