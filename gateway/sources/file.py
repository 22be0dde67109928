"""Replicas from a file on this machine: a JSON EndpointSliceList, replaced by rename."""

import asyncio
import json
import os
from pathlib import Path

from gateway import log, replicas
from gateway.sources import nap

# A stat costs microseconds; while requests wait it is all that stands between them and a new
# address.
_HURRIED = 0.02
_RELAXED = 1.0


class FileSource:
    def __init__(
        self, path: Path, into: replicas.ReplicaSet, *, port_name: str, urgent: asyncio.Event
    ) -> None:
        self._path = path
        self._into = into
        self._port_name = port_name
        self._urgent = urgent
        self._seen: tuple[int, int, int] | None = None
        self._trouble: str | None = None
        self.known = asyncio.Event()

    @property
    def trouble(self) -> str | None:
        return None if self.known.is_set() else self._trouble or "the file was not read yet"

    async def run(self) -> None:
        while True:
            self._look()
            await nap(self._urgent, relaxed=_RELAXED, hurried=_HURRIED)

    def _look(self) -> None:
        try:
            stat = os.stat(self._path)
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen == self._seen:
                return
            items = json.loads(self._path.read_bytes())["items"]
            listed = replicas.parse(items, port_name=self._port_name)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as e:
            self._report(f"{self._path} is no EndpointSliceList that can be read: {e!r}")
            return
        self._seen = seen
        self._trouble = None
        self._into.replace(listed)
        self.known.set()

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("replicas not read", reason=trouble)
        self._trouble = trouble
