"""The client's side of one exchange: what was said so far decides what can still be said.

Framing is written here, straight to the connection, rather than by aiohttp's response: one write
per upstream read, and an error event can always be appended to a stream that stands between two
events. aiohttp keeps parsing, limits, keep-alive and cancellation.
"""

import asyncio
import json
import socket
import struct
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from gateway import dialects, vanishing
from gateway.errors import ClientGone, Refusal
from gateway.headers import UNBUFFERED, Headers, find

# On, for no second: the kernel drops what it still holds and sends RST instead of FIN.
_NO_LINGER = struct.pack("ii", 1, 0)

_STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    *UNBUFFERED,
]


class _Written(web.StreamResponse):
    """Tells aiohttp that the answer is written, and whether its connection may carry another."""

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__()
        self._keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, data: bytes | bytearray | memoryview = b"") -> None:
        return None


_KEEP = _Written(keep_alive=True)
_CLOSE = _Written(keep_alive=False)


class Answer:
    __slots__ = (
        "_body",
        "_chunked",
        "_events",
        "_http",
        "_id",
        "_pending",
        "_protocol",
        "_tail",
        "_transport",
        "finished",
        "keep_alive",
        "status",
    )

    def __init__(self, http: web.BaseRequest, request_id: str) -> None:
        self._http = http
        self._transport = http.transport
        self._protocol = http.protocol
        self._id = request_id.encode()
        self._pending = b""  # A head that waits for the first body bytes, to leave with them.
        self._chunked = False
        self._events = False
        self._body = True
        self._tail = b""
        self.keep_alive = bool(http.keep_alive)
        self.status: int | None = None
        self.finished = False

    @property
    def committed(self) -> bool:
        return self.status is not None

    @property
    def stalled(self) -> bool:
        """Whether the client does not keep up, so that ``drain`` is due."""
        return self._protocol.writing_paused

    def head(self, status: int, reason: bytes, headers: Headers, *, length: int | None) -> None:
        """Begin an answer; without ``length`` its end is told by framing. Nothing is sent until
        the first ``write``, ``flush`` or ``finish``."""
        assert not self.committed, "an answer begins once"
        self.status = status
        modern = self._http.version >= (1, 1)
        self._body = self._http.method != "HEAD" and status not in (204, 304)
        lines = [b"HTTP/1.%d %d %s" % (1 if modern else 0, status, reason)]
        lines += map(b": ".join, headers)
        if length is None:
            # A stream with a length cannot take one more event.
            kind = find(headers, b"content-type") or b""
            plain = find(headers, b"content-encoding") in (None, b"identity")
            self._events = plain and kind.lower().startswith(b"text/event-stream")
        lines.append(b"x-request-id: " + self._id)
        if length is not None:
            lines.append(b"content-length: %d" % length)
        elif self._body and modern:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked")
        elif self._body:
            self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close")
        elif not modern:
            lines.append(b"connection: keep-alive")
        lines += (b"", b"")
        self._pending = b"\r\n".join(lines)

    def write(self, data: bytes) -> bool:
        """Send body bytes; True where the client does not keep up, so that ``drain`` is due."""
        if not self._body:
            return False
        tail = data if len(data) >= dialects.BOUNDARY_LENGTH else self._tail + data
        self._tail = tail[-dialects.BOUNDARY_LENGTH :]
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._pending:
            data, self._pending = self._pending + data, b""
        return self._send(data)

    @property
    def takes_frames(self) -> bool:
        return self._chunked

    def frame(self, data: bytes) -> bool:
        """Send one chunk, at least four bytes long, that is framed already; only where
        ``takes_frames`` says so and nothing is pending. This is the road of every token: a
        connection that is closing takes bytes too, and drops them."""
        self._tail = data[-2 - dialects.BOUNDARY_LENGTH : -2]
        transport = self._transport
        if transport is None:
            return True
        transport.write(data)
        return self._protocol.writing_paused

    def flush(self) -> None:
        if self._pending:
            head, self._pending = self._pending, b""
            self._send(head)

    def finish(self) -> None:
        end = self._pending + (b"0\r\n\r\n" if self._chunked else b"")
        self._pending = b""
        self.finished = True
        if end:
            self._send(end)

    async def drain(self, *, within: float) -> None:
        """Until the client has taken most of what was sent; raises ClientGone where it does not
        within ``within`` seconds, or is not there any more."""
        if self._transport is None or self._transport.is_closing():
            raise ClientGone
        try:
            async with asyncio.timeout(within):
                await self._http.writer.drain()
        except (TimeoutError, ConnectionError):
            raise ClientGone from None

    def heartbeat(self, beat: bytes) -> None:
        """The first one commits to a 200: from here on an error can only be an event."""
        if not self.committed:
            self.head(200, b"OK", _STREAM_HEADERS, length=None)
        self.write(beat)

    def json(
        self, status: int, payload: dict[str, Any] | list[Any], headers: Headers | None = None
    ) -> None:
        body = json.dumps(payload, separators=(",", ":")).encode()
        self.text(status, b"application/json", body, headers)

    def text(
        self, status: int, content_type: bytes, body: bytes, headers: Headers | None = None
    ) -> None:
        own = [(b"content-type", content_type), (b"date", formatdate(usegmt=True).encode())]
        reason = HTTPStatus(status).phrase.encode()
        self.head(status, reason, own + (headers or []), length=len(body))
        self.write(body)
        self.finish()

    def refuse(self, error: Refusal, dialect: dialects.Dialect | None) -> None:
        """End in the way that is still open: a status, an error event, or a reset. Never a clean
        end that would pass for a whole answer."""
        if self.finished:
            return
        if self._pending:
            # A head that was not sent yet is not said yet.
            self._pending, self.status, self._chunked = b"", None, False
        if not self.committed:
            self._refuse_with_status(error)
        elif dialect is not None and self._events and self._body and not self.inside_event:
            self.write(dialects.error_event(dialect, error))
            self.finish()
        else:
            self.reset()

    @property
    def inside_event(self) -> bool:
        """Whether the last byte of a stream of events was not the last one of an event."""
        return self._events and bool(self._tail) and not dialects.at_boundary(self._tail)

    def reset(self) -> None:
        """End so that nobody takes what was sent for a whole answer: to a client of HTTP/1.0, or
        one that reads to the end, an ordinary close would say just that."""
        self.keep_alive = False
        if self._transport is None:
            return
        if not self._transport.is_closing():
            with vanishing.borrowed(self._transport.get_extra_info("socket")) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def response(self) -> web.StreamResponse:
        if not self.finished:
            self.reset()
        return _KEEP if self.keep_alive else _CLOSE

    def _refuse_with_status(self, error: Refusal) -> None:
        headers: Headers = []
        if error.retry_after is not None:
            headers.append((b"retry-after", b"%d" % error.retry_after))
        if error.retry is not None:
            headers.append((b"x-should-retry", b"true" if error.retry else b"false"))
        if error.close:
            self.keep_alive = False
        self.json(error.status, {"error": error.detail()}, headers)

    def _send(self, data: bytes) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            # The handler is about to be cancelled for this; a sink cannot say it any other way.
            return True
        transport.write(data)
        return self._protocol.writing_paused
