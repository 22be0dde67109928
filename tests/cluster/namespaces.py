"""Entering the rig's namespaces from a test's own process."""

import contextlib
import ctypes
import os
import pathlib
import socket
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def network(path: pathlib.Path) -> Iterator[None]:
    """Run the block with *this thread* in the network namespace.

    Sockets made in the block stay in that network for life, also when they are used outside of
    it; threads and programs started in the block inherit it.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        away = os.open(path, os.O_RDONLY)
        try:
            _enter(away)
        finally:
            os.close(away)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def connect(path: pathlib.Path, address: tuple[str, int], timeout: float | None) -> socket.socket:
    """A TCP connection from inside the namespace, made by a thread that stays outside."""
    with network(path):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
