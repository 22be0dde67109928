"""A kept-up-to-date copy of every object of one kind, by list and watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tests.cluster.standin import objects
from tests.cluster.standin.client import ApiError, Client
from tests.cluster.standin.objects import Key, Obj, Resource

Handler = Callable[[Obj | None, Obj | None], None]
"""Called with an object before and after a change; None is an object that is not there."""

_log = logging.getLogger(__name__)

# Between a failed list or watch and the next list.
_RETRY_SECONDS = 1.0

_SYNC_SECONDS = 30.0


class Informer:
    """One kind's objects. Handlers run in the informer's own thread and must be quick."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self.resource = resource
        self._client = client
        self._lock = threading.Lock()
        self._store: dict[Key, Obj] = {}
        self._handlers: list[Handler] = []
        self._synced = threading.Event()

    def start(self) -> None:
        """Begin to list and watch, for the life of the process."""
        name = f"informer-{self.resource.plural}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wait_synced(self) -> None:
        """Wait for the first list; raises an `ApiError` when there is none for 30 s."""
        if not self._synced.wait(_SYNC_SECONDS):
            raise ApiError(0, "NotSynced", f"{self.resource.group_key} could not be listed")

    def get(self, key: Key) -> Obj | None:
        """The object as last seen."""
        with self._lock:
            return self._store.get(key)

    def all(self) -> list[Obj]:
        """Every object as last seen. Shared with other readers: not to be changed."""
        with self._lock:
            return list(self._store.values())

    def subscribe(self, handler: Handler) -> None:
        """Call a handler on each later change."""
        with self._lock:
            self._handlers = [*self._handlers, handler]

    def unsubscribe(self, handler: Handler) -> None:
        """Stop calling a handler; one that is not subscribed is no error."""
        with self._lock:
            self._handlers = [h for h in self._handlers if h != handler]

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self._list_and_watch()
            except ApiError as e:
                _log.info("%s: list or watch ended: %s", self.resource.group_key, e)
                pause.wait(_RETRY_SECONDS)

    def _list_and_watch(self) -> None:
        items, version = self._client.list(self.resource)
        fresh = {objects.key_of(item): item for item in items}
        for key in set(self._store) - set(fresh):
            self._change(key, None)
        for key, obj in fresh.items():
            self._change(key, obj)
        self._synced.set()
        while True:
            for event in self._client.watch(self.resource, version):
                obj = event["object"]
                if event["type"] == "ERROR":
                    raise ApiError(obj.get("code", 0), obj.get("reason", ""), obj.get("message"))
                version = obj["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    gone = event["type"] == "DELETED"
                    self._change(objects.key_of(obj), None if gone else obj)

    def _change(self, key: Key, obj: Obj | None) -> None:
        with self._lock:
            before = self._store.pop(key, None)
            if obj is not None:
                self._store[key] = obj
            handlers = self._handlers
        if before is not None and obj is not None and _version(before) == _version(obj):
            return  # Listed again, unchanged.
        if before is not None or obj is not None:
            for handler in handlers:
                handler(before, obj)


class Informers:
    """One informer a kind, started when first asked for and shared from then on."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Informer] = {}

    def get(self, api_version: str, plural: str) -> Informer:
        """The kind's informer, synced; raises an `ApiError` of status 404 for a missing kind."""
        resource = self.client.resource(api_version, plural)
        with self._lock:
            informer = self._running.get((api_version, plural))
            if informer is None:
                informer = self._running[api_version, plural] = Informer(self.client, resource)
                informer.start()
        informer.wait_synced()
        return informer


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])
