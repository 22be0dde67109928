"""An HTTP/1.1 client that shows what was really on the wire, and sends what no library would."""

import asyncio
import contextlib
import dataclasses
import json
from types import TracebackType
from typing import Any, Self


@dataclasses.dataclass(kw_only=True)
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    complete: bool  # Whether the framing said that this was all of it.

    def header(self, name: str) -> str | None:
        found = [v for n, v in self.headers if n.lower() == name]
        assert len(found) <= 1, f"{name} was sent {len(found)} times"
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The OpenAI error object, which every error body has to be."""
        assert self.header("content-type") == "application/json", self
        assert self.header("x-request-id"), self
        body = self.json()
        assert body.keys() == {"error"}, body
        assert body["error"].keys() == {"message", "type", "param", "code"}, body
        error: dict[str, Any] = body["error"]
        return error


def post(
    path: str, body: object = None, *, headers: dict[str, str] | None = None, method: str = "POST"
) -> bytes:
    """A request's bytes; ``body`` is sent as it is where it is bytes, else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    lines = {"host": "test", "content-type": "application/json", "content-length": str(len(data))}
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data


def get(path: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> bytes:
    lines = "".join(f"{n}: {v}\r\n" for n, v in ({"host": "test"} | (headers or {})).items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


class Client:
    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1",
            self._port,
            # A port of its own, which no connection to somewhere else shares: packets of one may
            # be dropped by its port.
            local_addr=("127.0.0.1", 0),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def reset(self) -> None:
        self.writer.transport.abort()

    async def ask(self, data: bytes, *, within: float = 20) -> Response:
        self.send(data)
        return await self.response(head_only=data.startswith(b"HEAD "), within=within)

    async def head(self) -> tuple[int, list[tuple[str, str]]]:
        raw = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = [(n, v.strip()) for n, _, v in (line.partition(":") for line in lines)]
        return int(status_line.split(" ")[1]), headers

    async def response(self, *, head_only: bool = False, within: float = 20) -> Response:
        async with asyncio.timeout(within):
            status, headers = await self.head()
            body, complete = await self._body(dict((n.lower(), v) for n, v in headers), head_only)
        return Response(status=status, headers=headers, body=body, complete=complete)

    async def chunk(self) -> bytes:
        """One chunk of a chunked body; empty at its end."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def rest(self) -> tuple[bytes, bool]:
        """What is left of a chunked body, and whether it ended as it should."""
        parts = []
        try:
            while data := await self.chunk():
                parts.append(data)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b"".join(parts), False
        return b"".join(parts), True

    async def _body(self, headers: dict[str, str], head_only: bool) -> tuple[bytes, bool]:
        if head_only:
            return b"", True
        if headers.get("transfer-encoding") == "chunked":
            return await self.rest()
        length = headers.get("content-length")
        return await self._plain(None if length is None else int(length))

    async def _plain(self, length: int | None) -> tuple[bytes, bool]:
        """Read by pieces, since a reset makes a reader forget what it had not handed out."""
        body = b""
        try:
            while length is None or len(body) < length:
                data = await self.reader.read(65536 if length is None else length - len(body))
                if not data:
                    return body, length is None
                body += data
        except ConnectionError:
            return body, False
        return body, True


async def once(port: int, data: bytes, *, within: float = 20) -> Response:
    """One request on a connection of its own."""
    async with Client(port) as client:
        return await client.ask(data, within=within)
