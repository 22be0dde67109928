"""Peers that vanish without a word: a node that lost its power, a link that drops packets.

No FIN and no RST tells of them. Without more the kernel waits for two hours on an idle connection
and for a quarter of an hour on one that it sends to.
"""

import socket
from typing import Protocol

# Probes begin after 15 s of silence and come every 5 s; the third unanswered one ends it.
_PROBING = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
# Bytes that nobody acknowledges, in milliseconds; as long as the probing takes.
_UNACKNOWLEDGED = {"TCP_USER_TIMEOUT": 30_000}


class Socket(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


def notice_client(listener: Socket) -> None:
    """Accepted connections inherit it. Only silence is probed: a client that reads nothing for a
    while is alive, and a limit on unacknowledged bytes would end it too."""
    _probe(listener)


def notice_engine(connection: Socket) -> None:
    """Also bytes that are not acknowledged: an engine that is alive always reads its requests."""
    _probe(connection)
    _set(connection, _UNACKNOWLEDGED)


def _probe(sock: Socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _set(sock, _PROBING)


def _set(sock: Socket, options: dict[str, int]) -> None:
    for name, value in options.items():
        # Linux knows them all; elsewhere (``noctaya up``) the system's own patience has to do.
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
