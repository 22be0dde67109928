"""Peers that vanish without a word: a node that lost its power, a link that drops packets.

No FIN and no RST tells of them. Without more the kernel waits for two hours on an idle connection
and for a quarter of an hour on one that it sends to.
"""

import contextlib
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Protocol

# Probes begin after 15 s of silence and come every 5 s; the third unanswered one ends it.
_PROBING = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
# Bytes that nobody acknowledges, in milliseconds; as long as the probing takes.
_SILENCE = 30_000
_UNACKNOWLEDGED = {"TCP_USER_TIMEOUT": _SILENCE}
# Linux's struct tcp_info up to tcpi_last_ack_recv: tcpi_retransmits and tcpi_probes are the third
# and the fourth byte, and count what was sent again in vain since anything was acknowledged.
_INFO = struct.Struct("=2xBB52xI")
# One is lost now and then.
_IN_VAIN = 3


class Socket(Protocol):
    """A transport's own idea of a socket, which uvloop's is not."""

    @property
    def family(self) -> int: ...
    @property
    def type(self) -> int: ...
    @property
    def proto(self) -> int: ...
    def fileno(self) -> int: ...


@contextlib.contextmanager
def borrowed(of: Socket) -> Iterator[socket.socket]:
    """The socket of a transport that is not closing, to ask and to set its options. uvloop's own
    way copies the descriptor for each of them, which fails where none is left."""
    sock = socket.socket(of.family, of.type, of.proto, fileno=of.fileno())
    try:
        yield sock
    finally:
        sock.detach()


def notice_client(listener: Socket) -> None:
    """Accepted connections inherit it. Only silence is probed: a client that reads nothing for a
    while is alive, and a limit on unacknowledged bytes would end it too."""
    with borrowed(listener) as sock:
        _probe(sock)


def notice_engine(connection: Socket) -> None:
    """Also bytes that are not acknowledged: an engine that is alive always reads its requests."""
    with borrowed(connection) as sock:
        _probe(sock)
        _set(sock, _UNACKNOWLEDGED)


def has_vanished(client: Socket) -> bool:
    """Whether a client acknowledges nothing of what is sent to it, for half a minute. One that
    reads nothing is another matter: the kernel on its side goes on answering."""
    if sys.platform != "linux":
        return False
    with borrowed(client) as sock, contextlib.suppress(OSError, struct.error):
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        retransmits, probes, last_acknowledged = _INFO.unpack(info)
        in_vain: bool = max(retransmits, probes) >= _IN_VAIN
        return in_vain and last_acknowledged >= _SILENCE
    return False


def _probe(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _set(sock, _PROBING)


def _set(sock: socket.socket, options: dict[str, int]) -> None:
    for name, value in options.items():
        # Linux knows them all; elsewhere (``noctaya up``) the system's own patience has to do.
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
