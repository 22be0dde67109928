"""aiohttp's HTTP server, as the gateway needs it: JSON errors, bytes left as they are, no log of
its own."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from gateway import calls, errors, log, vanishing
from gateway.answer import Answer
from gateway.settings import Listen

# Above the 60 s after which load balancers usually drop an idle connection, so that they do first.
_KEEP_ALIVE = 75.0
# A burst of clients comes when a model is woken by many at once.
_BACKLOG = 4096
# A client that has just connected is about to send its request.
_FIRST_REQUEST = 1.0
# How long the rest of a body that nobody reads is taken, lest a reset eats the answer.
_LINGER = 5.0


class Server:
    """``handle`` writes its own answers; ``bad_request`` hears of each that HTTP itself forbids."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        bad_request: Callable[[int], None],
    ) -> None:
        self._aiohttp = web.Server(handle, handler_cancellation=True)
        self._bad_request = bad_request
        self._listener: asyncio.Server | None = None

    @property
    def connections(self) -> list[web.RequestHandler]:
        return self._aiohttp.connections

    async def listen(self, at: Listen) -> None:
        """Raises OSError where the port cannot be had."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(self._aiohttp, loop, self._bad_request),
            at.host,
            at.port,
            backlog=_BACKLOG,
        )
        for listener in self._listener.sockets:
            vanishing.notice_client(listener)

    def stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def close_idle(self, busy: set[object]) -> None:
        """Connections that carry no request now would carry none before we are gone; but one
        that was just opened is given the time to send its first."""
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            assert isinstance(connection, _Connection)
            if connection not in busy and now - connection.opened > _FIRST_REQUEST:
                # Not ``close``, which ends the handler and leaves the socket open.
                connection.force_close()

    @staticmethod
    def drop_vanished(busy: set[object]) -> None:
        """Let go of clients that took nothing of what was sent to them, and whose connections the
        kernel would keep for a quarter of an hour."""
        for connection in busy:
            assert isinstance(connection, _Connection)
            transport = connection.transport
            if transport is None or transport.is_closing():
                continue
            if vanishing.has_vanished(transport.get_extra_info("socket")):
                transport.abort()


class _Connection(web.RequestHandler):
    __slots__ = ("_bad_request", "opened")

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        bad_request: Callable[[int], None],
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # Documented: None switches it off.
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE,
            lingering_time=_LINGER,
        )
        self._bad_request = bad_request
        self.opened = loop.time()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The parser's own refusals, in JSON. Neither logged nor answered with the bytes that were
        refused: they may hold a key."""
        answer = Answer(request, calls.request_id(None))
        if exc is not None and not isinstance(exc, HttpProcessingError):
            # The pipeline answers everything itself; what it let through came after its answer.
            log.error("connection failed", error=repr(exc))
            answer.reset()
        else:
            refusal = _in_words(exc)
            self._bad_request(refusal.status)
            answer.refuse(refusal, None)
        return answer.response()


def _in_words(error: BaseException | None) -> errors.Refusal:
    if isinstance(error, LineTooLong):
        return errors.invalid(
            431, "the request line or a header is longer than 8190 bytes", close=True
        )
    return errors.invalid(400, "the request is not valid HTTP", close=True)
