"""Passing one request to one replica, and the answer back, byte for byte."""

import asyncio
import time

from gateway import calls, dialects, headers, upstream, waiting
from gateway.calls import Call
from gateway.deps import Deps
from gateway.errors import Exhausted, Refusal, UpstreamLost
from gateway.exchange import Exchange, Head
from gateway.outcomes import Outcome
from gateway.replicas import Replica

# How long a request waits that a replica fresh from its start refused with 503.
BUSY_PAUSE = 0.25
# As much of an engine's error as is read to be wrapped into an event.
_ERROR_BODY_LIMIT = 64 * 1024


class EngineBusy(Exception):
    """The engine said 503 within an activation and the client has no byte of it yet."""


async def forward(call: Call, replica: Replica, deps: Deps, deadline: float | None) -> None:
    """Raises NothingSent, UpstreamLost, ClientGone, Refusal; and EngineBusy before ``deadline``,
    which is that of the activation that the request waited in, None where it did not."""
    replica.in_flight += 1
    try:
        exchange, head = await _ask(call, replica, deps)
        try:
            deps.replicas.answered(replica)
            call.bill.first_byte = time.monotonic()
            call.bill.replica = replica.name
            if head.status == 503 and deadline is not None and _before(deadline):
                raise EngineBusy
            await _answer(call, exchange, head, deps)
        finally:
            deps.pool.give_back(exchange, keep=not replica.terminating)
    except Exhausted as e:
        deps.signals.upstream_error(e.kind)
        raise _exhausted() from None
    finally:
        replica.in_flight -= 1
    call.bill.outcome = Outcome.SERVED


async def _ask(call: Call, replica: Replica, deps: Deps) -> tuple[Exchange, Head]:
    """Send the request and wait for the answer's head. The caller owns the exchange.

    A connection that was idle may have been closed by the engine just now: then, and only where
    no byte of an answer came, the request is sent once more on a connection of its own.
    """
    connection = await deps.pool.take(replica.address, fresh=False)
    while True:
        exchange = _send(call, connection, authenticated=deps.keys is not None)
        call.bill.forwarded = time.monotonic()
        try:
            head = await exchange.head(within=deps.settings.first_byte_timeout)
        except UpstreamLost as e:
            deps.pool.give_back(exchange, keep=False)
            stale = connection.used and not e.began and e.kind in ("closed", "reset")
            if not stale:
                raise
            deps.signals.upstream_error("stale")
            connection = await deps.pool.take(replica.address, fresh=True)
        except BaseException:
            deps.pool.give_back(exchange, keep=False)
            raise
        else:
            return exchange, head


def _send(call: Call, connection: upstream.Connection, *, authenticated: bool) -> Exchange:
    http = call.http
    lines = headers.to_engine(
        http.raw_headers, identity=call.answer.committed, authenticated=authenticated
    )
    lines.append((b"x-request-id", call.id.encode()))
    with_length = bool(call.body) or http.method in ("POST", "PUT", "PATCH")
    return connection.send(http.method, call.target.raw, lines, call.body, with_length=with_length)


async def _answer(call: Call, exchange: Exchange, head: Head, deps: Deps) -> None:
    answer = call.answer
    idle = deps.settings.idle_timeout
    if answer.committed:
        await _join_stream(call, exchange, head, idle)
    else:
        length = head.length if head.has_body or call.http.method == "HEAD" else None
        answer.head(head.status, head.reason, headers.to_client(head.headers), length=length)
    exchange.relay(answer.write, answer.frame if answer.takes_frames else None)
    answer.flush()
    while not await exchange.finish(within=idle):
        await answer.drain(within=idle)
        exchange.resume()
    if head.until_eof and answer.inside_event:
        # Where the end of the connection is the end of the answer, any break looks like it.
        raise UpstreamLost("closed", began=True)
    answer.finish()


async def _join_stream(call: Call, exchange: Exchange, head: Head, idle: float) -> None:
    """The client has its 200 since the first heartbeat: only a stream of events can follow it.

    Raises Refusal, which becomes an event, with the engine's own error where it gave one.
    """
    kind = (headers.find(head.headers, b"content-type") or b"").lower()
    encoded = headers.find(head.headers, b"content-encoding") not in (None, b"identity")
    if head.status == 200 and kind.startswith(b"text/event-stream") and not encoded:
        return
    body = await exchange.collect(_ERROR_BODY_LIMIT, within=idle)
    raise dialects.unwrap(head.status, b"" if encoded else body)


def _exhausted() -> Refusal:
    return Refusal(
        503,
        "gateway_exhausted",
        "this gateway has no file descriptor or memory left for a connection to the engine",
        outcome=Outcome.EXHAUSTED,
        retry_after=calls.retry_after(waiting.RETRY_WHEN_FULL),
    )


def _before(deadline: float) -> bool:
    return asyncio.get_running_loop().time() < deadline
