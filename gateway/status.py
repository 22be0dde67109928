"""The gateway's own endpoints: what it is doing, for people, probes, Prometheus and scripts."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from gateway.activation import Activation
from gateway.admission import Admission
from gateway.calls import Call
from gateway.demand import Demand
from gateway.pool import Pool
from gateway.replicas import ReplicaSet
from gateway.settings import Settings
from gateway.signals import Exposition, Signals

_STARTED = int(time.time())


def models(served: Iterable[str]) -> dict[str, Any]:
    """OpenAI's model list. Without known names it is empty: any name would be a guess."""
    data = [
        {"id": name, "object": "model", "created": _STARTED, "owned_by": "noctaya"}
        for name in sorted(served)
    ]
    return {"object": "list", "data": data}


class Status:
    def __init__(
        self,
        *,
        settings: Settings,
        signals: Signals,
        admission: Admission,
        demand: Demand,
        replicas: ReplicaSet,
        activation: Activation,
        pool: Pool,
        scaler_streams: Callable[[], int],
        client_connections: Callable[[], int],
        not_ready: Callable[[], str | None],
    ) -> None:
        self._settings = settings
        self._admission = admission
        self._demand = demand
        self._replicas = replicas
        self._activation = activation
        self._pool = pool
        self._scaler_streams = scaler_streams
        self._client_connections = client_connections
        self._not_ready = not_ready
        self._exposition = Exposition(signals, self.gauges)

    def answer(self, call: Call) -> None:
        path = call.target.path
        if path == "/healthz":
            call.answer.json(200, {"status": "ok"})
        elif path == "/readyz":
            self._ready(call)
        elif path == "/metrics":
            kind = b"text/plain; version=1.0.0; charset=utf-8"
            call.answer.text(200, kind, self._exposition.text())
        else:
            call.answer.json(200, self.queue())

    def _ready(self, call: Call) -> None:
        reason = self._not_ready()
        if reason is None:
            call.answer.json(200, {"status": "ready"})
        else:
            error = {"message": reason, "type": "server_error", "param": None, "code": "not_ready"}
            call.answer.json(503, {"error": error})

    def queue(self) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        cycle = self._activation.cycle
        return {
            "service": self._settings.service,
            "namespace": self._settings.namespace,
            "demand": self._demand.total,
            "waiting": self._demand.waiting,
            "inFlight": self._demand.in_flight,
            "active": self._demand.active(now),
            "replicas": self._replicas.counts(),
            "activation": None
            if cycle is None
            else {
                "began": round(cycle.began_at, 3),
                "seconds": round(cycle.seconds(now), 3),
                "signalled": _wall(self._demand.signalled_at),
                "starting": _wall(cycle.starting_at),
            },
            "scalerConnected": self._scaler_streams() > 0,
        }

    def gauges(self) -> dict[str, float]:
        counts = self._replicas.counts()
        return {
            "demand": self._demand.total,
            "waiting": self._demand.waiting,
            "in_flight": self._demand.in_flight,
            "admitted": self._admission.taken,
            "held_bytes": self._admission.held_bytes,
            "active": int(self._demand.active(asyncio.get_running_loop().time())),
            "replicas_ready": counts["ready"],
            "replicas_starting": counts["starting"],
            "replicas_terminating": counts["terminating"],
            "scaler_streams": self._scaler_streams(),
            "idle_upstream_connections": self._pool.idle,
            "client_connections": self._client_connections(),
            "tasks": len(asyncio.all_tasks()),
        }


def _wall(moment: float | None) -> float | None:
    """A monotonic moment as people write it: in seconds since the epoch."""
    return None if moment is None else round(time.time() - (time.monotonic() - moment), 3)
