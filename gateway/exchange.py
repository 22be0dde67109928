"""One request to a replica and its answer, over a connection that carries one at a time.

Body bytes are handed to the exchange's sink from within ``data_received``: a token costs no task
switch. What goes wrong is raised from ``head`` and ``finish`` as ``UpstreamLost``.

Engines write one token as one chunk, and it mostly arrives as one read. Such a read is recognised
by its length alone and passed on as it is, frame included; the parser, which stands between two
chunks before and after it, never sees it.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import httptools

from gateway.errors import UpstreamLost
from gateway.headers import Headers

if TYPE_CHECKING:
    from gateway.upstream import Connection

# httptools sets no limit of its own; engines send well under one KiB.
_MAX_HEAD = 256 * 1024
# Read ahead of a sink that is not attached yet; after that the engine has to wait.
_MAX_EARLY_BODY = 64 * 1024
# The shortest chunk that is passed on whole; a reader of its end finds the payload's last bytes.
_MIN_FRAME = 8

# Takes bytes and answers whether it wants to be spared more until ``resume``.
Sink = Callable[[bytes], bool]


class Head:
    """Status and headers of an answer, and how its body is framed.

    Raises ValueError for a transfer coding that the parser would take off only half.
    """

    def __init__(self, status: int, reason: bytes, headers: Headers) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.length: int | None = None
        self.chunked = False
        for name, value in headers:
            lower = name.lower()
            if lower == b"content-length":
                self.length = int(value)
            elif lower == b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    raise ValueError(f"transfer coding {value!r}")
                self.chunked = True
        if self.chunked:
            self.length = None

    @property
    def has_body(self) -> bool:
        return self.status >= 200 and self.status not in (204, 304)

    @property
    def until_eof(self) -> bool:
        """Whether nothing but the end of the connection tells the end of the body."""
        return self.length is None and not self.chunked


class Exchange:
    """One request's answer. Use: ``head``, then ``relay`` or ``collect``, and ``close`` always."""

    __slots__ = (
        "_between_chunks",
        "_bodiless",
        "_complete",
        "_early",
        "_error",
        "_frames",
        "_head",
        "_head_bytes",
        "_headers",
        "_heard",
        "_keep_alive",
        "_kind",
        "_last_byte",
        "_loop",
        "_parser",
        "_paused",
        "_pieces",
        "_reason",
        "_sink",
        "_surplus",
        "_waiter",
        "_within",
        "began",
        "connection",
    )

    def __init__(
        self, connection: "Connection", loop: asyncio.AbstractEventLoop, *, bodiless: bool
    ) -> None:
        self.connection = connection
        self._loop = loop
        self._bodiless = bodiless
        # The parser keeps this object's methods: a cycle, broken where the exchange ends.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._reason = b""
        self._head: Head | None = None
        self._head_bytes = 0
        self._pieces: list[bytes] = []
        self._early = False  # Body came before a sink, more than is read ahead.
        self._sink: Sink | None = None
        self._frames: Sink | None = None  # None from the end of the answer on, too.
        self._between_chunks = False
        self._paused = False
        self._complete = False
        self._surplus = False
        self._keep_alive = False
        self._error: UpstreamLost | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._within, self._kind = 0.0, ""  # What is waited for, and how long, while it is.
        self._last_byte = loop.time()
        self._heard = False  # Whether anything came since ``check`` looked last.
        self.began = False  # Whether any byte of an answer came.

    # What handlers call.

    async def head(self, *, within: float) -> Head:
        """The answer's head; raises UpstreamLost, also when none comes within ``within``."""
        self._last_byte = self._loop.time()
        while self._head is None:
            if self._error is not None:
                raise self._error
            await self._wait(within, "first_byte_timeout")
        return self._head

    def relay(self, sink: Sink, frames: Sink | None = None) -> None:
        """Hand every body byte to ``sink`` from now on; or, where that is how it came, a whole
        chunk in its frame to ``frames``. Either answers whether it wants to be spared more until
        ``resume``."""
        self._sink = sink
        if not self._complete and self._error is None:
            self._frames = frames
        if self._early:
            self.connection.resume_reading()
        self._flush()

    async def finish(self, *, within: float) -> bool:
        """True once the answer is whole, False when the sink wants to be spared; raises
        UpstreamLost where it breaks off, or stays silent for ``within``."""
        while not self._complete and not self._paused:
            if self._error is not None:
                raise self._error
            await self._wait(within, "idle_timeout")
        return self._complete

    def resume(self) -> None:
        self._paused = False
        self._last_byte = self._loop.time()
        self.connection.resume_reading()

    async def collect(self, limit: int, *, within: float) -> bytes:
        """The whole body where it is at most ``limit`` bytes long, else its beginning."""
        parts: list[bytes] = []

        def sink(data: bytes) -> bool:
            parts.append(data)
            return sum(map(len, parts)) > limit

        self.relay(sink)
        await self.finish(within=within)
        return b"".join(parts)[:limit]

    def close(self) -> bool:
        """Let go of the connection; True where it can carry another request."""
        self._parser = None
        self._frames = None
        connection = self.connection
        if connection.exchange is self:
            connection.exchange = None
        reusable = self._complete and self._keep_alive and not self._surplus and connection.usable
        if reusable:
            connection.used = True
            if self._paused:
                connection.resume_reading()
        else:
            connection.close()
        return reusable

    def check(self, now: float) -> None:
        """Fail where the engine was silent for longer than what waits allows. Called from time to
        time by whoever owns the connection: a timer per request would cost more than its parser,
        and a look at the clock per token more than its frame."""
        if self._heard:
            self._last_byte, self._heard = now, False
        elif self._waiter is not None and now - self._last_byte > self._within:
            self.fail(self._kind)

    async def _wait(self, within: float, kind: str) -> None:
        """Until something happens. The limit counts from the last byte, not from the call."""
        self._waiter = self._loop.create_future()
        self._within, self._kind = within, kind
        try:
            await self._waiter
        finally:
            self._waiter = None

    # What the connection calls.

    def feed(self, data: bytes) -> None:
        frames = self._frames
        if frames is not None and self._between_chunks and is_frame(data):
            self._heard = True
            if frames(data):
                self._pause()
            return
        parser = self._parser
        if parser is None or self._error is not None:
            return
        self._heard = True
        self.began = True
        if self._head is None:
            self._head_bytes += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.fail("framing")
            return
        except httptools.HttpParserError:
            # Bytes behind a whole answer spoil the connection, not the answer.
            if self._complete:
                self._surplus = True
            else:
                # What came before the fault was whole.
                self._flush()
                self.fail("framing")
                return
        if self._head is None:
            if self._head_bytes > _MAX_HEAD:
                self.fail("framing")
            return
        if self._between_chunks and not data.endswith(b"\r\n"):
            # The parser has the beginning of the next chunk's frame.
            self._between_chunks = False
        self._flush()
        if self._complete or self._sink is None:
            self._wake()

    def ended(self) -> None:
        """The engine closed its side."""
        if self._complete or self._error is not None:
            return
        head = self._head
        if head is not None and head.until_eof:
            self._complete = True
            self._flush()
            self._wake()
        else:
            self.fail("closed")

    def fail(self, kind: str) -> None:
        if self._error is None and not self._complete:
            self._error = UpstreamLost(kind, began=self.began)
            self._frames = None
            self._wake()

    def _flush(self) -> None:
        pieces = self._pieces
        if not pieces:
            return
        if self._sink is None:
            if not self._early and sum(map(len, pieces)) > _MAX_EARLY_BODY:
                self._early = True
                self.connection.pause_reading()
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self._sink(data) and not self._complete:
            self._pause()

    def _pause(self) -> None:
        self._paused = True
        self.connection.pause_reading()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # What httptools calls.

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come after the head, and are not part of it.
        if self._head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if self._complete:
            self._surplus = True
        elif status < 200:
            # 100 and 103 announce the answer; 101 was not asked for and ends as a framing error.
            self._headers, self._reason = [], b""
        else:
            self._head = Head(status, self._reason, self._headers)
            self._keep_alive = self._parser.should_keep_alive()
            if self._bodiless:
                # An answer to HEAD: its length belongs to no body, which httptools cannot know.
                self._complete, self._keep_alive = True, False

    def on_body(self, data: bytes) -> None:
        if not self._complete:
            self._pieces.append(data)

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_message_complete(self) -> None:
        if self._head is not None:
            self._complete = True
            self._frames = None


def is_frame(data: bytes) -> bool:
    """Whether ``data``, read at the beginning of a chunk, is that chunk to its end: then its size
    line is what its own length demands. False for what only the parser should judge: short ones,
    extensions, other spellings of the size."""
    line = _size_line(len(data))
    return line is not None and data.startswith(line) and data.endswith(b"\r\n")


# A stream's frames have few lengths, and to write out a number costs more than to look it up.
@functools.lru_cache(maxsize=4096)
def _size_line(length: int) -> bytes | None:
    """What a frame of so many bytes begins with: there is at most one size that its own digits
    make fit, and none for 21, 262 and so on."""
    for digits in range(1, 8):
        size = length - digits - len(b"\r\n\r\n")
        line = b"%x\r\n" % max(size, 0)
        if size >= _MIN_FRAME and len(line) == digits + len(b"\r\n"):
            return line
    return None
