"""Where the backend's addresses come from. Each source feeds a ReplicaSet and keeps it current."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import aiohttp


class Source(Protocol):
    """``known`` is set once the addresses were read, if only as an empty list."""

    known: asyncio.Event

    @property
    def trouble(self) -> str | None:
        """Why the addresses cannot be read, in words; None where they can, or could before."""

    async def run(self) -> None:
        """Until cancelled. What goes wrong is logged and tried again."""


async def nap(urgent: asyncio.Event, *, relaxed: float, hurried: float) -> None:
    """Sleep ``relaxed`` seconds, but only ``hurried`` while, and as soon as, requests wait."""
    if urgent.is_set():
        await asyncio.sleep(hurried)
        return
    try:
        async with asyncio.timeout(relaxed):
            await urgent.wait()
    except TimeoutError:
        return


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """aiohttp's own line reader gives up on long lines, and a slice may hold 1000 endpoints."""
    rest = b""
    while chunk := await stream.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
