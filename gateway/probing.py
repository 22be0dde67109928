"""Asking one replica whether it is ready, as the kubelet would, but directly and at once."""

import asyncio
import ssl

from gateway import upstream
from gateway.errors import Exhausted, NothingSent, UpstreamLost
from gateway.replicas import Address
from gateway.settings import Readiness

# Below the kernel's 1 s before it repeats a lost SYN: a new attempt is quicker than waiting for it.
_CONNECT_TIMEOUT = 0.25
# A busy engine was seen to answer its health check within 130 ms.
_ANSWER_TIMEOUT = 1.0


async def refusal(address: Address, readiness: Readiness | None) -> str:
    """Why the replica is not ready, in words; empty: its readiness request got a 2xx or 3xx, or,
    without one, a connection opened."""
    tls = _unverified() if readiness is not None and readiness.scheme == "HTTPS" else None
    try:
        connection = await upstream.connect(address, within=_CONNECT_TIMEOUT, tls=tls)
    except Exhausted:
        return "the gateway has no file descriptor to ask its engine with"
    except NothingSent:
        return "its engine takes no connection"
    try:
        return "" if readiness is None else await _ask(connection, readiness)
    finally:
        connection.close()


async def _ask(connection: upstream.Connection, readiness: Readiness) -> str:
    headers = [(n.encode(), v.encode()) for n, v in readiness.headers]
    if "host" not in {name.lower() for name, _ in readiness.headers}:
        headers.insert(0, (b"host", str(connection.address).encode()))
    headers += [(b"user-agent", b"noctaya-gateway"), (b"connection", b"close")]
    exchange = connection.send("GET", readiness.path, headers, b"", with_length=False)
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            head = await exchange.head(within=_ANSWER_TIMEOUT)
    except (TimeoutError, UpstreamLost):
        return f"its engine does not answer GET {readiness.path}"
    finally:
        exchange.close()
    if 200 <= head.status < 400:
        return ""
    return f"its engine answers GET {readiness.path} with {head.status}"


def _unverified() -> ssl.SSLContext:
    """The kubelet does not verify a probe's certificate either: it is for the Pod's own address."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
