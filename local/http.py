"""The one kind of request that the runner makes itself: a small GET on this machine.

HTTP/1.0 by hand, because the usual client library takes longer to import than all the rest of
``noctaya up`` takes to start.
"""

import asyncio
import ssl
from collections.abc import Sequence

Headers = Sequence[tuple[str, str]]

MAX_BODY_BYTES = 4 * 1024 * 1024


async def get(
    port: int, path: str, *, seconds: float, headers: Headers = (), tls: bool = False
) -> tuple[int, bytes]:
    """(status, body). OSError where nobody answers, TimeoutError where it takes ``seconds``."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=_unverified() if tls else None
        )
        try:
            lines = [f"GET {path} HTTP/1.0", f"Host: 127.0.0.1:{port}"]
            lines += [f"{name}: {value}" for name, value in headers]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            answer = await _rest(reader)
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return _status(head), body


async def connect(port: int, *, seconds: float) -> None:
    """OSError where nobody listens, TimeoutError where it takes ``seconds``."""
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """All up to the end; the server closes, since HTTP/1.0 keeps nothing alive."""
    parts = []
    left = MAX_BODY_BYTES
    while left > 0 and (part := await reader.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _status(head: bytes) -> int:
    """0 where the answer is not HTTP."""
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return 0
    return int(words[1])


def _unverified() -> ssl.SSLContext:
    """A probe asks whether somebody answers, not who: the kubelet does not verify either."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
