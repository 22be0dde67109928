"""The API server's audit log: who asked for what, in order, with its result.

    before = cluster.audit.mark()
    ...
    assert not cluster.audit.writes(since=before, resource="scaledobjects")

An event is in the file before its client has the answer, so nothing needs to be waited for.
"""

import dataclasses
import datetime
import json
import pathlib
from collections.abc import Iterator
from typing import Any, NewType

Mark = NewType("Mark", int)
START = Mark(0)

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """One request. Bodies are kept for writes of the kinds that the project's parts write."""

    at: datetime.datetime
    user: str
    agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    request: Object | None
    response: Object | None

    def __str__(self) -> str:
        kind = "/".join(part for part in (self.resource, self.subresource) if part)
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.at:%H:%M:%S.%f} {self.user} {self.verb} {kind} {where} -> {self.code}"


def service_account(namespace: str, name: str) -> str:
    """The user name under which a ServiceAccount appears."""
    return f"system:serviceaccount:{namespace}:{name}"


class Log:
    """Reads the log from any moment on; the file only grows."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def mark(self) -> Mark:
        """This moment, for ``since``."""
        return Mark(self.path.stat().st_size)

    def events(
        self,
        *,
        since: Mark = START,
        verb: str | None = None,
        user: str | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
    ) -> list[Event]:
        """The events that match all that is given; ``subresource=""`` is the object itself."""
        wanted = {
            "verb": verb,
            "user": user,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        filters = {field: value for field, value in wanted.items() if value is not None}
        return [
            event
            for event in self._read(since, [text for text in (namespace, name) if text])
            if all(getattr(event, field) == value for field, value in filters.items())
        ]

    def writes(self, *, since: Mark = START, accepted: bool = True, **wanted: str) -> list[Event]:
        """The requests that changed something, or with ``accepted=False`` all that tried."""
        return [
            event
            for event in self.events(since=since, **wanted)
            if event.verb in WRITES and (event.code < 300 or not accepted)
        ]

    def _read(self, since: Mark, texts: list[str]) -> Iterator[Event]:
        """The events whose line has these texts; parsing every line would take seconds."""
        needed = [text.encode() for text in texts]
        with open(self.path, "rb") as file:
            if since:
                # What was half written at the mark began before it.
                file.seek(since - 1)
                file.readline()
            for line in file:
                # The last line may be half written.
                if line.endswith(b"\n") and all(text in line for text in needed):
                    yield _event(json.loads(line))


def _event(raw: Object) -> Event:
    target = raw.get("objectRef", {})
    return Event(
        at=datetime.datetime.fromisoformat(raw["requestReceivedTimestamp"]),
        user=raw["user"].get("username", ""),
        agent=raw.get("userAgent", ""),
        verb=raw["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name") or _name(raw, "requestObject") or _name(raw, "responseObject"),
        code=raw.get("responseStatus", {}).get("code", 0),
        request=raw.get("requestObject"),
        response=raw.get("responseObject"),
    )


def _name(raw: Object, body: str) -> str:
    """A create names its object in the body alone, a generated name only in the answer's."""
    name: str = raw.get(body, {}).get("metadata", {}).get("name", "")
    return name
