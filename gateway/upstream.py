"""The gateway's side of a connection to a replica: HTTP/1.1 over asyncio and httptools.

A Connection is a socket and can be used again; an Exchange is one request and its answer. All state
of a request lives in its Exchange, since a pooled connection may serve the next request before the
last one's handler has run again.
"""

import asyncio
import errno
import ssl
from typing import cast

from gateway import vanishing
from gateway.errors import Exhausted, NothingSent
from gateway.exchange import Exchange
from gateway.headers import Headers
from gateway.replicas import Address

# Long enough for one lost SYN (the kernel sends it again after 1 s), short against any activation.
CONNECT_TIMEOUT = 3.0
# What this machine lacks and the replica has nothing to do with; it may have it again in a moment.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXHAUSTED_PAUSE = 0.1


async def connect(
    address: Address, *, within: float = CONNECT_TIMEOUT, tls: ssl.SSLContext | None = None
) -> "Connection":
    """Raises NothingSent where no connection comes about, and its subclass Exhausted where that is
    this machine's fault all the time."""
    exhausted = False
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    return await _connect(address, tls)
                except OSError as e:
                    exhausted = e.errno in _EXHAUSTED
                    if not exhausted:
                        raise
                await asyncio.sleep(_EXHAUSTED_PAUSE)
    except TimeoutError:
        raise Exhausted if exhausted else NothingSent("connect_timeout") from None
    except ConnectionRefusedError:
        raise NothingSent("refused") from None
    except OSError as e:
        raise NothingSent("unreachable") from e


async def _connect(address: Address, tls: ssl.SSLContext | None) -> "Connection":
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(address, loop), address.host, address.port, ssl=tls
    )
    return connection


class Connection(asyncio.Protocol):
    """``exchange`` is the one request that is on its way, None while idle."""

    def __init__(self, address: Address, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self._loop = loop
        self.used = False  # Whether an exchange came to its end on it before.
        self.idle_since = 0.0
        self.exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None

    def send(
        self, method: str, target: str, headers: Headers, body: bytes, *, with_length: bool
    ) -> Exchange:
        """Write one request. The caller owns the Exchange, and must ``close`` or ``finish`` it."""
        assert self.exchange is None, "one exchange at a time"
        exchange = Exchange(self, self._loop, bodiless=method == "HEAD")
        self.exchange = exchange
        transport = self._transport
        if transport is None or transport.is_closing():
            exchange.fail("closed")
            return exchange
        lines = [f"{method} {target} HTTP/1.1".encode("utf-8", "surrogateescape")]
        lines += map(b": ".join, headers)
        if with_length:
            lines.append(b"content-length: %d" % len(body))
        if len(body) <= 64 * 1024:
            lines += (b"", body)
            transport.write(b"\r\n".join(lines))
        else:
            lines += (b"", b"")
            transport.write(b"\r\n".join(lines))
            transport.write(body)
        return exchange

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """At once and without ceremony: the engine has to notice that nobody reads any more."""
        if self._transport is not None:
            self._transport.abort()

    def notice_vanishing(self) -> None:
        """For a connection that may be silent for long, which one for a probe is not."""
        if self.usable and self._transport is not None:
            vanishing.notice_engine(self._transport.get_extra_info("socket"))

    def pause_reading(self) -> None:
        if self.usable and self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.usable and self._transport is not None:
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.exchange is None:
            # An answer that nobody asked for must not become the next request's.
            self.close()
        else:
            self.exchange.feed(data)

    def eof_received(self) -> None:
        if self.exchange is not None:
            self.exchange.ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.exchange is not None:
            self.exchange.ended() if exc is None else self.exchange.fail("reset")
