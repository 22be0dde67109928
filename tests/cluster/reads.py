"""Reads from the API server by the test's own process.

A call of kubectl costs a tenth of a second of CPU; tests that wait read many times a second, and
several of them wait at once.
"""

import dataclasses
import functools
import json
import urllib.parse
from typing import Any

import urllib3

from tests.cluster import errors, layout, transport

Object = dict[str, Any]

# All kinds of all groups in two requests.
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_TIMEOUT = urllib3.Timeout(connect=5, read=30)


@dataclasses.dataclass(frozen=True)
class _Kind:
    prefix: str  # "/api/v1", "/apis/apps/v1"
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        scope = ["namespaces", namespace] if self.namespaced else []
        parts = [self.prefix, *scope, self.plural, name]
        return "/".join(part for part in parts if part)


class Reader:
    """Gets and lists objects as the admin. May be used from any thread."""

    def __init__(self, instance: layout.Instance, dial: transport.Dial) -> None:
        self._instance = instance
        self._dial = dial
        self._kinds: dict[str, _Kind] = {}

    def get(self, kind: str, name: str, namespace: str) -> Object | None:
        """The object, or None where it does not exist; a RigError for an unknown kind."""
        found: Object | None = self._request(self._find(kind).path(namespace, name))
        return found

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        """The objects in the order of their names; a selector is written as kubectl takes it."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        listed = self._request(self._find(kind).path(namespace) + query)
        if listed is None:
            raise errors.RigError(f"the server has no {kind} any more")
        # Items of a list leave out what the list says once.
        told = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        return [{**told, **item} for item in listed["items"]]

    def _find(self, kind: str) -> _Kind:
        if kind not in self._kinds:
            self._discover()
        if kind not in self._kinds:
            raise errors.RigError(f"the server has no kind {kind!r}")
        return self._kinds[kind]

    def _request(self, path: str, accept: str = "application/json") -> Any:
        """The answer's body; None for what is not there."""
        try:
            answer = self._manager.request(
                "GET", f"{layout.API_URL}{path}", headers={"Accept": accept}, timeout=_TIMEOUT
            )
        except urllib3.exceptions.HTTPError as e:
            raise errors.RigError(f"the API server did not answer GET {path}: {e}") from e
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise errors.RigError(f"GET {path}: {answer.status} {answer.data[:500]!r}")
        return json.loads(answer.data)

    def _discover(self) -> None:
        """Learn every kind by its plural, singular and short names, with its group and without.

        Where two groups share a name the one that the server lists first has it, as in kubectl.
        """
        kinds: dict[str, _Kind] = {}
        for root in ("/api", "/apis"):
            for group in (self._request(root, _DISCOVERY) or {}).get("items", []):
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    prefix = "/".join(p for p in (root, name, version["version"]) if p)
                    for resource in version.get("resources", []):
                        kind = _Kind(prefix, resource["resource"], resource["scope"] != "Cluster")
                        names = [resource["resource"], resource.get("singularResource", "")]
                        for known in [*names, *resource.get("shortNames", [])]:
                            kinds.setdefault(known, kind)
                            kinds.setdefault(f"{known}.{name}", kind)
        self._kinds = kinds

    @functools.cached_property
    def _manager(self) -> urllib3.PoolManager:
        pki = self._instance.state / "pki"
        manager = urllib3.PoolManager(
            maxsize=8,
            ca_certs=str(pki / "ca.crt"),
            cert_file=str(pki / "admin.crt"),
            key_file=str(pki / "admin.key"),
        )
        transport.route(manager, self._dial)
        return manager
