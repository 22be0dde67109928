"""A request's life: route, authenticate, admit, read, activate, forward, account.

``serve`` is that list, top to bottom. Whatever is taken (a slot, bytes, a place in the demand, a
connection) is taken with ``with`` and given back on every way out, the client's leaving included:
aiohttp cancels the handler of a client that left, wherever it waits.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from gateway import (
    admission,
    asks,
    bodies,
    calls,
    dialects,
    errors,
    forwarding,
    log,
    route,
    status,
    waiting,
)
from gateway.activation import HOPELESS_AFTER
from gateway.calls import Call
from gateway.demand import Want
from gateway.deps import Deps, Running
from gateway.errors import ClientGone, NothingSent, Refusal, UpstreamLost
from gateway.outcomes import Outcome
from gateway.replicas import Replica
from gateway.settings import ColdStart


async def serve(http: web.BaseRequest, deps: Deps) -> web.StreamResponse:
    target = route.target(http.method, http.raw_path, extra_paths=deps.settings.inference_paths)
    call = Call(http, target)
    if deps.closing:
        call.answer.keep_alive = False
    if target.kind is route.Kind.OWN and http.version.major == 1:
        if _watches(call):
            await deps.watchers.serve(call)
        else:
            deps.own(call)
            await _taken(call, deps)
        return call.answer.response()
    try:
        await _end_in_words(_serve(call, deps), call, deps)
    finally:
        # Exactly once, whatever way it ended.
        deps.signals.record(call)
    await _taken(call, deps)
    return call.answer.response()


async def _taken(call: Call, deps: Deps) -> None:
    """Until the client has room for one more answer. One that sends requests in a row and reads
    nothing would have the answers to all of them kept here."""
    if call.answer.stalled:
        try:
            await call.answer.drain(within=deps.settings.idle_timeout)
        except ClientGone:
            call.answer.reset()


async def _serve(call: Call, deps: Deps) -> None:
    _check_version(call)
    if deps.keys is not None:
        deps.keys.check(call.http)
    _check_route(call)
    with deps.admission.slot() as slot:
        call.body = await bodies.read(call.http, slot)
        if call.target.kind is route.Kind.LOOKUP:
            await _look_up(call, deps)
            return
        with deps.demand.request() as want:
            await _activate_and_forward(call, want, deps)


async def _activate_and_forward(call: Call, want: Want, deps: Deps) -> None:
    hold: _Hold | None = None
    try:
        while True:
            replica = deps.replicas.choose()
            if replica is None:
                hold = hold or _Hold(call, want, deps)
                replica = await hold.replica()
            want.fly()
            try:
                await forwarding.forward(call, replica, deps, hold.deadline if hold else None)
                return
            except NothingSent as e:
                deps.signals.upstream_error(e.kind)
                deps.replicas.refused(replica)
            except forwarding.EngineBusy:
                assert hold is not None, "only a request that waited is sent again"
                await hold.pause()
    finally:
        if hold is not None:
            hold.note_signal()


async def _look_up(call: Call, deps: Deps) -> None:
    """Other methods than POST: a warm backend answers them, a cold one is not woken."""
    replica = deps.replicas.choose()
    if replica is not None:
        try:
            await forwarding.forward(call, replica, deps, None)
            return
        except NothingSent as e:
            deps.signals.upstream_error(e.kind)
            deps.replicas.refused(replica)
    if call.http.method in ("GET", "HEAD") and call.target.path == "/v1/models":
        call.answer.json(200, status.models(deps.settings.served_models))
        call.bill.outcome = Outcome.ANSWERED
        return
    method = call.http.method
    if _comes_up(deps):
        raise _starting(deps, f"the model is starting, and {method} requests do not wait for it")
    raise errors.asleep(method)


def _comes_up(deps: Deps) -> bool:
    """Whether a replica can be expected without anybody asking for one now."""
    wanted = deps.activation.cycle is not None or deps.settings.min_replicas > 0
    return wanted or bool(deps.replicas.starting())


class _Hold:
    """One request's wait for a replica; its time runs from the first wait on, not from each."""

    def __init__(self, call: Call, want: Want, deps: Deps) -> None:
        self._call = call
        self._want = want
        self._deps = deps
        self._dialect: dialects.Dialect | None = None
        self._since: float | None = None
        self._heartbeat = dialects.HEARTBEAT
        self._interval = deps.settings.heartbeat_interval
        self._next_beat = 0.0
        self._limit_outcome = Outcome.ACTIVATION_TIMEOUT
        self.deadline: float | None = None  # None: it never had to wait.

    async def replica(self) -> Replica:
        """Wait for a ready one, with heartbeats where the client can take them.

        Raises Refusal where the wait is over, or where this gateway does not hold requests.
        """
        deps, call = self._deps, self._call
        loop = asyncio.get_running_loop()
        self._begin(loop.time())
        assert self._since is not None and self.deadline is not None
        with self._beating():
            while True:
                now = loop.time()
                if deps.activation.cycle is None:
                    deps.activation.begin(now)
                self._check(now)
                due = self.deadline
                if deps.activation.may_be_hopeless and not deps.scaler_seen():
                    due = min(due, max(self._since + HOPELESS_AFTER, now + 1))
                replica = await deps.activation.wait(due)
                if replica is not None:
                    call.bill.released = time.monotonic()
                    return replica

    async def pause(self) -> None:
        """The engine is up but says 503: let it breathe, within the same deadline."""
        self._want.wait()
        with self._beating():
            await asyncio.sleep(forwarding.BUSY_PAUSE)

    def _beating(self) -> contextlib.AbstractContextManager[None]:
        if self._dialect is None:
            return contextlib.nullcontext()
        return self._deps.beats.every(self._interval, self._beat, first=self._next_beat)

    def _begin(self, now: float) -> None:
        if self._since is not None:
            self._want.wait()
            return
        call, settings = self._call, self._deps.settings
        ask = call.ask()
        asks.check_model(ask, settings.served_models)
        self._since = now
        self._deps.activation.begin(now)
        if settings.cold_start is ColdStart.REJECT:
            self._check(now)
            raise _starting(self._deps, "the model is starting")
        self._want.wait()
        call.bill.waited_since = time.monotonic()
        self._dialect = dialects.streaming(call.target.path) if ask.stream else None
        if settings.data_heartbeats:
            self._heartbeat = dialects.data_heartbeat(call.target.path, ask.model)
        self._interval = waiting.beat_interval(
            call.http.headers, interval=settings.heartbeat_interval
        )
        self._next_beat = now + self._interval
        limit = settings.activation_timeout
        if self._dialect is None:
            hold = waiting.hold_limit(call.http.headers, activation_timeout=limit)
            if hold < limit:
                limit, self._limit_outcome = hold, Outcome.HOLD_TIMEOUT
        self.deadline = now + limit

    def _check(self, now: float) -> None:
        deps = self._deps
        cycle = deps.activation.cycle
        since = self._since if self.deadline is not None or cycle is None else cycle.started
        assert since is not None
        if deps.activation.hopeless(since=since, now=now, scaler_seen=deps.scaler_seen()):
            raise Refusal(
                503,
                "not_activatable",
                "nothing starts the model: no autoscaler asks this gateway for its demand, since "
                "its weights are not staged yet, or KEDA is missing or refuses its ScaledObject; "
                f"{_where_to_look(deps)}",
                outcome=Outcome.NOT_ACTIVATABLE,
                retry=False,
            )
        if self.deadline is not None and now >= self.deadline:
            raise self._too_long(now - since)

    def _too_long(self, waited: float) -> Refusal:
        obstacle = self._deps.activation.obstacle()
        seen = f" ({obstacle})" if obstacle else ""
        if self._limit_outcome is Outcome.HOLD_TIMEOUT:
            return _starting(
                self._deps,
                f"the model was still starting{seen} after {waited:.0f} s, as long as a request "
                "that does not stream can be held; it goes on starting",
                outcome=Outcome.HOLD_TIMEOUT,
            )
        return _starting(
            self._deps,
            f"the model did not start within {waited:.0f} s{seen}; {_where_to_look(self._deps)}",
            code="activation_timeout",
            outcome=Outcome.ACTIVATION_TIMEOUT,
        )

    def _beat(self) -> None:
        """Not waited for: a client that reads nothing has a few bytes a minute kept for it."""
        self._call.answer.heartbeat(self._heartbeat)
        self._call.bill.heartbeats += 1
        self._deps.signals.heartbeats += 1
        self._next_beat = asyncio.get_running_loop().time() + self._interval

    def note_signal(self) -> None:
        """Remember when KEDA was told of this request, before its demand goes."""
        bill, demand = self._call.bill, self._deps.demand
        if demand.signalled_at is not None and bill.waited_since is not None:
            bill.signalled = max(demand.signalled_at, bill.waited_since)


def _watches(call: Call) -> bool:
    return call.target.raw == "/noctaya/queue?watch=true" and call.http.method == "GET"


def _check_version(call: Call) -> None:
    """Raises Refusal for versions that the parser takes but whose framing is another one."""
    major = call.http.version.major
    if major != 1:
        status = 505 if major > 1 else 400
        raise errors.invalid(status, f"HTTP/{major} is not spoken here; use HTTP/1.1", close=True)


def _check_route(call: Call) -> None:
    """Raises Refusal for what is refused by method, path or protocol alone."""
    if call.target.kind is route.Kind.NOWHERE:
        raise errors.Refusal(
            404,
            "unknown_path",
            f"{call.http.method} {call.http.path} is no inference endpoint",
            outcome=Outcome.NO_ROUTE,
            kind="invalid_request_error",
        )
    if call.target.kind is route.Kind.METHOD_NOT_ALLOWED:
        raise errors.invalid(405, f"{call.http.method} is not allowed here")
    if call.http.headers.get("Upgrade", "").lower() == "websocket":
        raise errors.invalid(501, "WebSocket connections are not supported", close=True)


async def _end_in_words(work: Coroutine[Any, Any, None], call: Call, deps: Deps) -> None:
    """Run ``work``; whatever it raises becomes an outcome and what can still be said of it."""
    task = asyncio.current_task(deps.loop)
    assert task is not None
    running = Running(task, call)
    deps.running.add(running)
    try:
        await work
    except Refusal as e:
        _refuse(call, e)
    except admission.Full as e:
        _refuse(call, _full(deps, e))
    except UpstreamLost as e:
        deps.signals.upstream_error(e.kind)
        call.bill.error = e.kind
        _refuse(call, _lost(e))
    except (ClientGone, ConnectionError):
        call.bill.outcome = Outcome.ABANDONED
        call.answer.reset()
    except asyncio.CancelledError:
        if not running.stopped:
            call.bill.outcome = Outcome.ABANDONED
            raise
        task.uncancel()
        _refuse(call, _shutting_down())
    except Exception as e:  # noqa: BLE001 - a bug of ours must still answer in JSON.
        log.error("request failed", request_id=call.id, error=repr(e))
        _refuse(call, errors.fault())
    finally:
        deps.running.discard(running)


def _refuse(call: Call, error: Refusal) -> None:
    call.bill.outcome = error.outcome
    call.answer.refuse(error, dialects.streaming(call.target.path))


def _full(deps: Deps, full: admission.Full) -> Refusal:
    seconds = waiting.RETRY_WHEN_FULL if deps.replicas.ready() else _remaining(deps)
    limits = {
        "requests": f"{deps.settings.max_queue} requests are waiting or running",
        "bytes": "the bodies of the requests that wait take all the memory there is for them",
    }
    return Refusal(
        429,
        "rate_limit_exceeded",
        f"the queue is full: {limits[full.what]}",
        outcome=Outcome.QUEUE_FULL if full.what == "requests" else Outcome.BYTES_FULL,
        kind="requests",
        retry_after=calls.retry_after(seconds),
    )


def _where_to_look(deps: Deps) -> str:
    settings = deps.settings
    return f"the status of LLMService {settings.namespace}/{settings.service} says why"


def _starting(
    deps: Deps,
    message: str,
    *,
    code: str = "backend_starting",
    outcome: Outcome = Outcome.COLD,
) -> Refusal:
    seconds = calls.retry_after(_remaining(deps))
    return Refusal(
        503, code, f"{message}; retry in {seconds} s", outcome=outcome, retry_after=seconds
    )


def _remaining(deps: Deps) -> float:
    cycle = deps.activation.cycle
    elapsed = 0.0 if cycle is None else cycle.seconds(asyncio.get_running_loop().time())
    return deps.estimate.remaining(elapsed=elapsed)


def _lost(lost: UpstreamLost) -> Refusal:
    if lost.kind in ("first_byte_timeout", "idle_timeout"):
        words = {"first_byte_timeout": "did not begin to answer", "idle_timeout": "fell silent"}
        return Refusal(
            504,
            "backend_timeout",
            f"the engine {words[lost.kind]} within its time limit",
            outcome=Outcome.UPSTREAM_TIMEOUT,
        )
    words = {"framing": "answered with broken HTTP"}
    return Refusal(
        502,
        "upstream_error",
        f"the engine {words.get(lost.kind, 'closed the connection before its answer was whole')}",
        outcome=Outcome.UPSTREAM_ERROR,
    )


def _shutting_down() -> Refusal:
    return Refusal(
        503,
        "gateway_stopping",
        "this gateway is being stopped; another one takes over",
        outcome=Outcome.SHUTDOWN,
        retry_after=1,
    )
