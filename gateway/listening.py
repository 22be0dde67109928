"""Ports: had, or refused in words that name the flag."""

import contextlib
import os
import socket
from collections.abc import Iterator

from gateway.settings import Listen


@contextlib.contextmanager
def in_words(flag: str, at: Listen) -> Iterator[None]:
    """Raises OSError with a line for a person, whatever the block's own failure to listen said."""
    try:
        yield
    except socket.gaierror as e:
        # Its numbers are not the kernel's.
        raise OSError(f"{flag}: cannot listen on {at}: {e.strerror}") from None
    except (OSError, RuntimeError, UnicodeError) as e:
        number = e.errno if isinstance(e, OSError) else None
        reason = os.strerror(number) if number else str(e)
        raise OSError(f"{flag}: cannot listen on {at}: {reason}") from None


def try_port(at: Listen) -> None:
    """gRPC says on stderr, in words of its own, that a port is taken: so ask first."""
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    with socket.create_server((at.host, at.port), family=family):
        pass
