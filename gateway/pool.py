"""Idle connections to replicas, kept for a shorter time than engines keep theirs."""

import asyncio
from collections import deque

from gateway import upstream
from gateway.replicas import Address

# uvicorn, below vLLM, closes an idle connection after 5 s; a request sent at that moment is lost.
IDLE_LIMIT = 3.0


class Pool:
    def __init__(self) -> None:
        self._idle: dict[Address, deque[upstream.Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> int:
        return sum(map(len, self._idle.values()))

    async def take(self, address: Address, *, fresh: bool) -> upstream.Connection:
        """An idle connection, the one used last, or a new one; raises NothingSent.

        The caller owns it, and gives it back with ``give`` or closes it.
        """
        idle = self._idle.get(address)
        now = asyncio.get_running_loop().time()
        while idle and not fresh:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_LIMIT:
                return connection
            connection.close()
        return await upstream.connect(address)

    def give(self, connection: upstream.Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.address, deque()).append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_LIMIT / 2, self._sweep)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_LIMIT
        for address, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since < oldest or not idle[0].usable):
                idle.popleft().close()
            if not idle:
                del self._idle[address]
        self._sweeper = loop.call_later(IDLE_LIMIT / 2, self._sweep) if self._idle else None
