"""A stand-in for the API server's EndpointSlices: HTTPS, a bearer token, list and watch.

It follows the real protocol (a list with a resource version, a watch as JSON lines from there,
bookmarks, ``Status`` objects for refusals, an ``ERROR`` event for a version that is too old) and
serves this one resource only. The cluster tests ask a real API server.
"""

import asyncio
import contextlib
import json
import ssl
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.process.gateway import rig

_PATH = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
_SELECTOR = "kubernetes.io/service-name=m-backend"


class ApiServer:
    def __init__(self, folder: Path) -> None:
        self.account = folder / "account"
        self.port = 0
        self.token = "first"
        self.forbidden = False
        self.deaf = False  # Watches are opened but never hear of a change.
        self.fleeting = False  # Watches end as soon as they begin.
        self.nonsense: bytes | None = None  # What is said in place of everything else.
        self.answering = asyncio.Event()  # Nothing is answered while it is not set.
        self.answering.set()
        self.lists = 0
        self.watches = 0
        self._version = 1
        self._slices: dict[str, dict[str, Any]] = {}
        self._changes: list[tuple[int, dict[str, Any]]] = []
        self._watchers: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._runner: web.AppRunner | None = None
        self._certificate(folder)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--replicas-from", "endpointslices", "--service-account", str(self.account))

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get(_PATH, self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        self.port = self.port or rig.free_port()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.account / "ca.crt", self.account / "tls.key")
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context).start()

    async def stop(self) -> None:
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def grant(self, token: str) -> None:
        """The kubelet writes a new token; the old one is not valid any more."""
        self.token = token
        (self.account / "token").write_text(token + "\n")

    def tell(self, *endpoints: Any) -> None:
        """Change the slices as an endpoint controller would, one event for each."""
        fresh = {s["metadata"]["name"]: s for s in rig.slices(*endpoints)["items"]}
        for name in self._slices.keys() | fresh.keys():
            old, new = self._slices.get(name), fresh.get(name)
            if old != new:
                kind = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"
                self._publish(kind, new or old or {})
        self._slices = fresh

    def bookmark(self) -> None:
        self._publish("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def expire_watches(self) -> None:
        self._publish("ERROR", {"kind": "Status", "code": 410, "message": "too old"})

    def end_watches(self) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(None)

    def _publish(self, kind: str, thing: dict[str, Any]) -> None:
        self._version += 1
        if self.deaf:
            return
        if kind not in ("BOOKMARK", "ERROR"):
            metadata = thing["metadata"] | {"resourceVersion": str(self._version)}
            thing = thing | {"metadata": metadata}
            self._changes.append((self._version, {"type": kind, "object": thing}))
        for watcher in self._watchers:
            watcher.put_nowait({"type": kind, "object": thing})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        await self.answering.wait()
        if self.nonsense is not None:
            return web.Response(body=self.nonsense, content_type="application/json")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        if self.forbidden:
            return _status(403, 'endpointslices.discovery.k8s.io is forbidden: User "x"')
        assert request.query["labelSelector"] == _SELECTOR
        if request.query.get("watch") == "true":
            return await self._watch(request)
        self.lists += 1
        body = rig.slices() | {"items": list(self._slices.values())}
        return web.json_response(body | {"metadata": {"resourceVersion": str(self._version)}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert request.query["allowWatchBookmarks"] == "true"
        since = int(request.query["resourceVersion"])
        assert since <= self._version
        self.watches += 1
        events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        # What happened between the list and the watch is told first.
        for version, change in self._changes:
            if version > since:
                events.put_nowait(change)
        self._watchers.add(events)
        if self.fleeting:
            events.put_nowait(None)
        response = web.StreamResponse(headers={"content-type": "application/json"})
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                while (event := await events.get()) is not None:
                    await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.discard(events)
        return response

    def _certificate(self, folder: Path) -> None:
        self.account.mkdir()
        self.grant(self.token)
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
                *("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", str(self.account / "tls.key"), "-out", str(self.account / "ca.crt")),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
        )


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)
