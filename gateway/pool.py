"""Connections to replicas: idle ones kept for a shorter time than engines keep theirs, busy ones
watched for silence."""

import asyncio
from collections import deque

from gateway import upstream
from gateway.exchange import Exchange
from gateway.replicas import Address

# uvicorn, below vLLM, closes an idle connection after 5 s; a request sent at that moment is lost.
IDLE_LIMIT = 3.0
# How late a limit on an engine's silence may be noticed. The limits are minutes.
_SWEEP = 0.25


class Pool:
    """Built inside the running loop, which is asked for once: before Python 3.12 each question is
    a system call, and there were four a request."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Address, deque[upstream.Connection]] = {}
        self._busy: set[upstream.Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> int:
        return sum(map(len, self._idle.values()))

    async def take(self, address: Address, *, fresh: bool) -> upstream.Connection:
        """An idle connection, the one used last, or a new one; raises NothingSent.

        The caller gives it back with ``give_back``, whatever happens.
        """
        connection = None if fresh else self._take_idle(address)
        if connection is None:
            connection = await upstream.connect(address)
            connection.notice_vanishing()
        self._busy.add(connection)
        if self._sweeper is None:
            self._sweep()
        return connection

    def give_back(self, exchange: Exchange, *, keep: bool) -> None:
        """End the exchange; its connection stays if it can carry another and ``keep`` is true."""
        connection = exchange.connection
        self._busy.discard(connection)
        if not exchange.close():
            return
        if keep:
            connection.idle_since = self._loop.time()
            self._idle.setdefault(connection.address, deque()).append(connection)
        else:
            connection.close()

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def _take_idle(self, address: Address) -> upstream.Connection | None:
        idle = self._idle.get(address)
        oldest = self._loop.time() - IDLE_LIMIT
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    def _sweep(self) -> None:
        now = self._loop.time()
        for connection in self._busy:
            if connection.exchange is not None:
                connection.exchange.check(now)
        for address, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since < now - IDLE_LIMIT or not idle[0].usable):
                idle.popleft().close()
            if not idle:
                del self._idle[address]
        busy = self._busy or self._idle
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep) if busy else None
