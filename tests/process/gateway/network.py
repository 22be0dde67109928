"""A network of the tests' own, in which packets can be made to disappear."""

import asyncio
import contextlib
import ctypes
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_RULES = """
table inet test {
  set dropped { type inet_service; }
  chain input {
    type filter hook input priority 0;
    tcp sport @dropped drop
    tcp dport @dropped drop
  }
}
"""
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def own() -> Iterator[None]:
    """Run the block with this thread, and what it starts, in a network namespace that has nothing
    but a loopback interface. Needs root."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _check(_libc.unshare(_CLONE_NEWNET))
        try:
            _run("ip", "link", "set", "lo", "up")
            _run("nft", _RULES)
            yield
        finally:
            _check(_libc.setns(home, _CLONE_NEWNET))
    finally:
        os.close(home)


@contextlib.contextmanager
def dropped(port: int) -> Iterator[None]:
    """No packet to or from ``port`` arrives, and nobody is told. Keep the port taken meanwhile."""
    _run("nft", f"add element inet test dropped {{ {port} }}")
    try:
        yield
    finally:
        _run("nft", f"delete element inet test dropped {{ {port} }}")


@contextlib.asynccontextmanager
async def road_to(port: int, folder: Path) -> AsyncIterator[str]:
    """A target for gRPC that leads to ``port`` in this thread's network. gRPC's own threads stay
    in the network that they were started in, perhaps by an earlier test; a Unix socket is seen
    from any."""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, back), _copy(to, writer))

    path = folder / f"{port}.sock"
    server = await asyncio.start_unix_server(lead, path)
    try:
        yield f"unix:{path}"
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=20)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
