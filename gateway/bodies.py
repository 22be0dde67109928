"""Reading a request's body: after admission, within limits of size, memory and time."""

import asyncio

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway import admission, errors

BODY_LIMIT = 64 * 1024 * 1024
# A body may take this long, and as much longer as its bytes need at the slowest pace allowed.
# 64 KiB/s is below any link that carries images, and ends a slow loris within a minute.
_BASE_SECONDS = 30.0
_SLOWEST = 64 * 1024.0


async def read(http: web.BaseRequest, slot: admission.Slot) -> bytes:
    """The whole body, de-chunked. Raises Refusal and admission.Full; bytes stay with ``slot``."""
    length = _announced(http)
    expected = _expected(http)
    if not http.body_exists:
        return b""
    if length is not None:
        slot.hold_bytes(length)
    if http.content.is_eof() and (size := http.content.total_bytes) <= BODY_LIMIT:
        # It came along with its head, as small ones do.
        if length is None:
            slot.hold_bytes(size)
        return http.content.read_nowait()
    if expected:
        _continue(http)
    loop = asyncio.get_running_loop()
    started = loop.time()
    parts: list[bytes] = []
    size = 0
    while not http.content.at_eof():
        try:
            async with asyncio.timeout_at(started + _BASE_SECONDS + size / _SLOWEST):
                part = await http.content.readany()
        except TimeoutError:
            raise errors.invalid(
                408, f"the body stopped coming after {size} bytes", close=True
            ) from None
        except (web.RequestPayloadError, HttpProcessingError):
            raise errors.invalid(400, "the body's framing is broken", close=True) from None
        size += len(part)
        if size > BODY_LIMIT:
            raise _too_large()
        if length is None:
            slot.hold_bytes(len(part))
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _announced(http: web.BaseRequest) -> int | None:
    """The Content-Length, once the framing is one that means a single thing to everybody."""
    coding = http.headers.get("Transfer-Encoding")
    if coding is not None and coding.strip().lower() != "chunked":
        # The parser would take off ``chunked`` and leave the rest of the coding in the body.
        raise errors.invalid(501, f"transfer coding {coding!r} is not supported", close=True)
    if coding is not None and http.version < (1, 1):
        raise errors.invalid(400, "Transfer-Encoding in an HTTP/1.0 request", close=True)
    length = http.content_length
    if length is not None and length > BODY_LIMIT:
        raise _too_large()
    return length


def _expected(http: web.BaseRequest) -> bool:
    """Whether the client waits to be asked for its body."""
    expect = http.headers.get("Expect")
    if expect is None:
        return False
    if expect.strip().lower() != "100-continue":
        raise errors.invalid(417, f"expectation {expect!r} is not known", close=True)
    return http.version >= (1, 1)


def _continue(http: web.BaseRequest) -> None:
    """Ask for the body: only now that it has a place."""
    transport = http.transport
    if transport is not None and not transport.is_closing():
        transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _too_large() -> errors.Refusal:
    return errors.invalid(413, f"the body is larger than {BODY_LIMIT} bytes", close=True)
