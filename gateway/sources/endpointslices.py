"""Replicas from the cluster: list and watch of the backend's EndpointSlices.

The gateway speaks to the API server with its Pod's own account. A watch tells changes at once;
while requests wait the slices are listed as well, since a watch can lose an event without noticing.
While the API server is away the last known replicas stay.
"""

import asyncio
import contextlib
import json
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from gateway import log, replicas
from gateway.sources import lines, nap

# The API server sends a bookmark about once a minute at the latest; a watch silent for longer may
# be a connection that died without a word.
_SILENCE = 60.0
_LIST_TIMEOUT = 10.0
_LIST_INTERVAL = 2.0
_RETRY_FIRST, _RETRY_MOST = 0.2, 5.0
# No answer, or one that is no list and no event of EndpointSlices.
_AWAY = (
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class _Refused(Exception):
    """The API server's answer was no list or watch; ``status`` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class EndpointSliceSource:
    def __init__(
        self,
        into: replicas.ReplicaSet,
        *,
        account: Path,
        namespace: str,
        backend_service: str,
        port_name: str,
        urgent: asyncio.Event,
    ) -> None:
        self._into = into
        self._account = account
        self._port_name = port_name
        self._urgent = urgent
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._selector = f"kubernetes.io/service-name={backend_service}"
        self._events = 0
        self._slices: dict[str, dict[str, Any]] = {}
        self._trouble: str | None = "the API server has not answered yet"
        self.known = asyncio.Event()

    @property
    def trouble(self) -> str | None:
        """A refusal counts even after a good list; an API server that is away does not."""
        return self._trouble

    async def run(self) -> None:
        async with (
            aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._follow(session))
            tasks.create_task(self._list_while_urgent(session))

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        loop = asyncio.get_running_loop()
        pause = _RETRY_FIRST
        while True:
            began = loop.time()
            try:
                listed = await self._list(session)
                self._take(listed)
                await self._watch(session, listed)
            except _Refused as e:
                # An expired watch is no refusal: the next look begins with a list.
                if e.status != 410:
                    self._refused(e)
            except _AWAY as e:
                self._away(e)
            # A watch that ends as soon as it began is asked for less and less often.
            if loop.time() - began > _RETRY_MOST:
                pause = _RETRY_FIRST
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MOST)

    async def _list_while_urgent(self, session: aiohttp.ClientSession) -> None:
        while True:
            await nap(self._urgent, relaxed=3600.0, hurried=_LIST_INTERVAL)
            if not self._urgent.is_set():
                continue
            seen = self._events
            try:
                listed = await self._list(session)
                # An event that came meanwhile may be newer than the list.
                if self._events == seen:
                    self._take(listed)
            except (*_AWAY, _Refused):
                # The watch's own loop meets the same trouble, and reports it.
                continue

    async def _list(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        query = {"labelSelector": self._selector}
        limits = aiohttp.ClientTimeout(total=_LIST_TIMEOUT)
        async with await self._get(session, query, limits) as response:
            listed: dict[str, Any] = await response.json(content_type=None)
        return listed

    def _take(self, listed: dict[str, Any]) -> None:
        self._slices = {piece["metadata"]["name"]: piece for piece in listed["items"] or ()}
        self._publish()
        if self._trouble is not None:
            log.info("replicas known", **self._into.counts())
        self._trouble = None
        self.known.set()

    async def _watch(self, session: aiohttp.ClientSession, listed: dict[str, Any]) -> None:
        """Until the API server ends it, or says nothing for ``_SILENCE``. Each look begins with a
        list, so a version that is too old costs nothing but that."""
        query = {
            "labelSelector": self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(listed["metadata"]["resourceVersion"]),
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE)
        async with await self._get(session, query, limits) as response:
            # A silent watch is no trouble worth a line, only one to open again.
            with contextlib.suppress(aiohttp.SocketTimeoutError):
                async for line in lines(response.content):
                    self._event(json.loads(line))

    def _event(self, event: dict[str, Any]) -> None:
        kind, thing = event["type"], event["object"]
        self._events += 1
        if kind == "BOOKMARK":
            return
        if kind == "ERROR":
            raise _Refused(int(thing.get("code") or 500), str(thing.get("message")))
        name = thing["metadata"]["name"]
        if kind == "DELETED":
            self._slices.pop(name, None)
        else:
            self._slices[name] = thing
        self._publish()

    def _publish(self) -> None:
        self._into.replace(replicas.parse(self._slices.values(), port_name=self._port_name))

    async def _get(
        self, session: aiohttp.ClientSession, query: dict[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        url = f"https://{_api_server()}{self._path}"
        # Read for each request: the kubelet replaces the token before it expires.
        token = (self._account / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        response = await session.get(
            url, params=query, timeout=limits, headers=headers, ssl=self._tls()
        )
        if response.status != 200:
            async with response:
                raise _Refused(response.status, _message(await response.text()))
        return response

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        # From 3.13 on Python also refuses a CA certificate that leaves out extensions (key usage,
        # key identifiers), as clusters' own CAs do that were made by hand or years ago. The name
        # and the signature are checked as before.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def _away(self, error: Exception) -> None:
        log.warning("API server away", reason=repr(error))
        if not self.known.is_set():
            self._trouble = f"the API server does not answer: {error!r}"

    def _refused(self, error: _Refused) -> None:
        log.warning("replicas not read", status=error.status, reason=str(error))
        # A token may be replaced a moment before it is mounted: only 403 takes readiness away.
        if error.status == 403 or not self.known.is_set():
            self._trouble = f"the API server refuses to list EndpointSlices: {error}"


def _api_server() -> str:
    """Where the kubelet says the API server is; raises OSError outside a Pod."""
    try:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    except KeyError as e:
        raise OSError(f"{e} is not set: not in a cluster? see --replicas-from file:PATH") from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _message(text: str) -> str:
    """A Status object's message, or whatever stands there instead."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text[:200]
