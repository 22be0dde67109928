"""HTTP to the API server, as one account: discovery, list, watch and the writes."""

from __future__ import annotations

import base64
import contextlib
import json
import pathlib
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import requests
import yaml

from tests.cluster.standin.objects import Key, Obj, Resource

# A connect that takes longer is a lost server; a write that takes longer has failed.
_TIMEOUT = (5.0, 30.0)

# The server ends a watch after this long, so that a dead connection is noticed in the end.
WATCH_SECONDS = 240


class ApiError(Exception):
    """The API server's refusal, with its HTTP status and reason; 0 means it did not answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Client:
    """Requests to one API server. Safe to share between threads."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        """Read the current context of a kubeconfig: token, client certificate, or both."""
        self._server, self._settings = _read_kubeconfig(kubeconfig)
        self._local = threading.local()
        self._resources: dict[tuple[str, str], Resource] = {}

    def resource(self, api_version: str, plural: str) -> Resource:
        """Look a kind up; one that is missing raises an `ApiError` of status 404."""
        found = self._resources.get((api_version, plural))
        if found is None:
            served = self._call("GET", _api(api_version)).get("resources") or []
            by_name = {entry["name"]: entry for entry in served}
            if plural not in by_name:
                raise ApiError(404, "NotFound", f"the server has no {plural} in {api_version}")
            found = Resource(
                api_version=api_version,
                plural=plural,
                kind=by_name[plural]["kind"],
                namespaced=by_name[plural]["namespaced"],
                has_status=f"{plural}/status" in by_name,
            )
            self._resources[api_version, plural] = found
        return found

    def list(self, resource: Resource) -> tuple[list[Obj], str]:
        """All objects of a kind, in every namespace, and the version to watch from."""
        answer = self._call("GET", f"{_api(resource.api_version)}/{resource.plural}")
        # Items of a list carry no kind of their own.
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**kind, **item} for item in answer["items"]], answer["metadata"]["resourceVersion"]

    def watch(self, resource: Resource, since: str) -> Iterator[Obj]:
        """Events after a version, until the server ends the stream or an `ApiError` is raised."""
        params = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        path = f"{_api(resource.api_version)}/{resource.plural}"
        with contextlib.closing(self._send("GET", path, params=params, stream=True)) as answer:
            try:
                for line in answer.iter_lines(chunk_size=None):
                    if line:
                        yield json.loads(line)
            except requests.RequestException as e:
                raise ApiError(0, "ConnectionLost", str(e)) from e

    def get(self, resource: Resource, key: Key) -> Obj:
        """Read one object from the API server, not from a cache."""
        return self._call("GET", _path(resource, key))

    def create(self, resource: Resource, obj: Obj) -> Obj:
        """POST a new object."""
        namespace = obj["metadata"].get("namespace") or ""
        return self._call("POST", _collection(resource, namespace), body=obj)

    def replace(self, resource: Resource, key: Key, obj: Obj, *, status: bool = False) -> Obj:
        """PUT an object, or its status alone; its resourceVersion must be the current one."""
        suffix = "/status" if status else ""
        return self._call("PUT", _path(resource, key) + suffix, body=obj)

    def delete(self, resource: Resource, key: Key, uid: str) -> None:
        """DELETE the object of this uid, and what it owns in the background."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        self._call("DELETE", _path(resource, key), body=options)

    def _call(self, method: str, path: str, *, body: Obj | None = None) -> Obj:
        return dict(self._send(method, path, body=body).json())

    def _send(
        self, method: str, path: str, *, body: Obj | None = None, **options: Any
    ) -> requests.Response:
        read_timeout = WATCH_SECONDS + 30.0 if options.get("stream") else _TIMEOUT[1]
        try:
            answer = self._session().request(
                method,
                self._server + path,
                json=body,
                timeout=(_TIMEOUT[0], read_timeout),
                **options,
            )
        except requests.RequestException as e:
            raise ApiError(0, "Unreachable", str(e)) from e
        if not answer.ok:
            raise _refusal(answer)
        return answer

    def _session(self) -> requests.Session:
        """One session a thread: `requests` does not promise that one can be shared."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False
            session.headers.update(self._settings["headers"])
            session.verify = self._settings["verify"]
            session.cert = self._settings["cert"]
            self._local.session = session
        return session


def _refusal(answer: requests.Response) -> ApiError:
    try:
        status = answer.json()
    except ValueError:
        status = {}
    reason, message = status.get("reason") or answer.reason, status.get("message") or answer.text
    return ApiError(answer.status_code, reason, message)


def _api(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _collection(resource: Resource, namespace: str) -> str:
    scope = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{_api(resource.api_version)}{scope}/{resource.plural}"


def _path(resource: Resource, key: Key) -> str:
    return f"{_collection(resource, key.namespace)}/{key.name}"


def _read_kubeconfig(path: pathlib.Path) -> tuple[str, dict[str, Any]]:
    config = yaml.safe_load(path.read_text())
    context = _named(config, "contexts", config["current-context"])["context"]
    cluster = _named(config, "clusters", context["cluster"])["cluster"]
    user = _named(config, "users", context["user"]).get("user") or {}
    cert = _file(user, "client-certificate")
    token = user.get("token")
    if "tokenFile" in user:
        token = pathlib.Path(user["tokenFile"]).read_text().strip()
    settings = {
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "verify": _file(cluster, "certificate-authority"),
        "cert": (cert, _file(user, "client-key")) if cert else None,
    }
    return cluster["server"].rstrip("/"), settings


def _named(config: Obj, group: str, name: str) -> Obj:
    return next(entry for entry in config[group] if entry["name"] == name)


def _file(section: Obj, name: str) -> str | None:
    """A path from a kubeconfig; data given inline is put into a file that only we can read."""
    if f"{name}-data" not in section:
        return section.get(name)
    with tempfile.NamedTemporaryFile(prefix="standin-", delete=False) as file:
        file.write(base64.b64decode(section[f"{name}-data"]))
    return file.name
