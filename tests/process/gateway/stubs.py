"""An engine for tests: a real HTTP server on loopback, whose answers are scripts of the test.

It exists to misbehave as no engine of ours would: to refuse, hang, reset and lie. Tests of what a
proper engine answers use ``noctaya-echo``.
"""

import asyncio
import contextlib
import dataclasses
import socket
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

CHUNK_1 = b'data: {"choices":[{"delta":{"content":"one"}}]}\n\n'
CHUNK_2 = b'data: {"choices":[{"delta":{"content":"two"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM_TYPE = b"content-type: text/event-stream; charset=utf-8\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\n" + STREAM_TYPE + b"transfer-encoding: chunked\r\n\r\n"


@dataclasses.dataclass
class Received:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((v for n, v in self.headers if n.lower() == name), None)


class Wire:
    """The engine's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def answer(
        self, status: int = 200, body: bytes = b'{"ok":true}', headers: bytes = b""
    ) -> None:
        headers += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        await self.write(b"HTTP/1.1 %d Status\r\n%b\r\n%b" % (status, headers, body))

    def reset(self) -> None:
        """Close with a TCP reset, not with a FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()

    def close(self) -> None:
        self.writer.close()

    async def left(self) -> None:
        """Until the gateway has closed its side."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Script = Callable[[Wire, Received], Awaitable[None]]


async def stream(wire: Wire, _: Received) -> None:
    await wire.write(STREAM_HEAD)
    for chunk in (CHUNK_1, CHUNK_2, DONE, b""):
        await wire.chunk(chunk)


async def plain(wire: Wire, _: Received) -> None:
    await wire.answer()


class Engine:
    """``script`` answers everything but the health check; ``healthy`` is its status there."""

    def __init__(self, script: Script = plain, *, port: int = 0) -> None:
        self.script = script
        self.port = port
        self.healthy = 200
        self.received: list[Received] = []
        self.health_checks = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse from now on, and cut what runs."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._serve(Wire(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self.connections -= 1
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, wire: Wire) -> None:
        while not wire.writer.is_closing():
            received = await _receive(wire.reader)
            if received.target == "/health":
                self.health_checks += 1
                await wire.answer(self.healthy, b"")
            else:
                self.received.append(received)
                await self.script(wire, received)


async def _receive(reader: asyncio.StreamReader) -> Received:
    raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = raw.split("\r\n")[:-2]
    method, target, _ = line.split(" ")
    headers = [(n, v.strip()) for n, _, v in (text.partition(":") for text in lines)]
    length = next((int(v) for n, v in headers if n.lower() == "content-length"), 0)
    return Received(method, target, headers, await reader.readexactly(length))
