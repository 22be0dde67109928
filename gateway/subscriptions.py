"""Follows every gateway's demand stream, and tells ``members`` what each of them says."""

import asyncio
import contextlib
import json

import aiohttp

from gateway import log, members, sources
from gateway.replicas import Address, ReplicaSet

# A member repeats itself every 2 s, so this long a silence is a lost connection.
_SILENCE = 5.0
_CONNECT = 2.0
_RETRY = 0.5
# How long the first word of every member is waited for before the sum counts without it.
_FIRST_WORDS = 2.0


class Subscriptions:
    """``gateways`` are the members' addresses, kept current by ``source``."""

    def __init__(self, gateways: ReplicaSet, source: sources.Source, into: members.Members) -> None:
        self._gateways = gateways
        self._source = source
        self._into = into
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._begun = asyncio.Event()
        self._heard = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None

    def begin(self) -> None:
        self._begun.set()

    async def run(self) -> None:
        """From ``begin`` on, until cancelled."""
        await self._begun.wait()
        await self._source.known.wait()
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE),
            connector=aiohttp.TCPConnector(limit=0),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._session:
            self._gateways.on_change(self._meet)
            self._meet()
            try:
                await self._first_words()
                await asyncio.Event().wait()
            finally:
                for task in self._tasks.values():
                    task.cancel()

    def _meet(self) -> None:
        """Follow whoever is listed: a terminating gateway still carries requests."""
        for address in self._gateways.addresses():
            if address not in self._tasks:
                task = asyncio.create_task(self._follow(address))
                self._tasks[address] = task

    async def _first_words(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_WORDS):
                while not all(self._into.knows(a) for a in self._gateways.addresses()):
                    self._heard.clear()
                    await self._heard.wait()
        self._into.known.set()
        log.info("members known", members=[str(a) for a in self._into.fresh()])

    async def _follow(self, address: Address) -> None:
        """As long as it is listed, and then until its stream ends."""
        try:
            while address in self._gateways.addresses():
                try:
                    await self._read(address)
                except (aiohttp.ClientError, OSError, TimeoutError) as e:
                    log.warning("member lost", member=str(address), reason=repr(e))
                except (ValueError, LookupError, TypeError, RecursionError) as e:
                    log.warning("member not understood", member=str(address), reason=repr(e))
                await asyncio.sleep(_RETRY)
        finally:
            del self._tasks[address]

    async def _read(self, address: Address) -> None:
        assert self._session is not None
        url = f"http://{address}/noctaya/queue?watch=true"
        async with self._session.get(url) as response:
            response.raise_for_status()
            async for line in sources.lines(response.content):
                self._into.heard(address, members.parse(json.loads(line)))
                self._heard.set()
