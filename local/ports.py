"""Ports of this machine that a gateway may have."""

import contextlib
import socket

from local.errors import Failure
from local.slices import ADDRESS


def take(held: contextlib.ExitStack, port: int) -> int:
    """A port that is free now, kept while ``held`` is; 0: any. Raises Failure."""
    sock = held.enter_context(socket.socket())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((ADDRESS, port))
    except (OSError, OverflowError) as e:
        reason = e.strerror if isinstance(e, OSError) else "no such port"
        raise Failure(
            f"--port: cannot listen on {ADDRESS}:{port}: {reason}; choose another with --port"
        ) from e
    taken: int = sock.getsockname()[1]
    return taken


def refusal(port: int) -> str:
    """Why the port cannot be had now; empty: it can."""
    try:
        with contextlib.ExitStack() as held:
            take(held, port)
    except Failure as e:
        return str(e)
    return ""
