"""A FAKE of the Hugging Face Hub and of ModelScope, on loopback, with a CDN on another port.

No hub can be reached from a test machine. This one speaks the part of both protocols that clients
use to download (the contract is in the fetcher's sources); `test_localhub.py` holds it against the
real huggingface_hub and modelscope_hub clients, so that it cannot drift to what our code likes.

A fault is a function that gets an exchange before it is answered, and answers it itself (True), or
leaves it alone (False). `exchange.send` sends an answer with anything about it bent.
"""

import collections.abc
import contextlib
import dataclasses
import functools
import hashlib
import http.server
import json
import re
import typing
import urllib.parse

from tests.process.fetcher import serving

SERVER = "noctaya-local-hub (a fake for tests)"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclasses.dataclass(kw_only=True)
class Repo:
    """A repository's one commit. Files with an LFS suffix are served by the CDN."""

    files: dict[str, bytes]
    commit: str = COMMIT
    branches: tuple[str, ...] = ("main", "master")
    gated: bool = False
    token: str | None = None
    lfs_suffixes: tuple[str, ...] = (".safetensors", ".bin")

    def is_lfs(self, path: str) -> bool:
        return path.endswith(self.lfs_suffixes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    kind: str
    target: str
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


Fault = collections.abc.Callable[["Exchange"], bool]


class Exchange:
    """One request on its way to an answer.

    `kind` is revision, tree, resolve or cdn for the Hub, ms-list or ms-file for ModelScope.
    """

    def __init__(self, handler: "_Handler", kind: str, path: str, content: bytes | None) -> None:
        self.handler = handler
        self.kind = kind
        self.path = path
        self.content = content

    @property
    def hub(self) -> "LocalHub":
        return self.handler.server.hub

    @property
    def start(self) -> int:
        """Where the request's range starts."""
        found = re.match(r"bytes=(\d+)-", self.handler.headers.get("Range") or "")
        return int(found[1]) if found else 0

    def send(
        self,
        status: int,
        body: bytes | memoryview = b"",
        headers: dict[str, str] | None = None,
        *,
        length: int | None = None,
        cut_after: int | None = None,
        chunked: bool = False,
    ) -> bool:
        """Send an answer; `length` and `cut_after` let it promise more than it holds."""
        self.handler.send_response(status)
        fields = {"Content-Type": "application/octet-stream", **(headers or {})}
        if chunked:
            fields["Transfer-Encoding"] = "chunked"
        else:
            fields["Content-Length"] = str(len(body) if length is None else length)
        for name, value in fields.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        if self.handler.command != "HEAD":
            self._body(body, cut_after, chunked)
        return True

    def _body(self, body: bytes | memoryview, cut_after: int | None, chunked: bool) -> None:
        if chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), bytes(body)) if body else b"0\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            self.handler.wfile.write(body if cut_after is None else body[:cut_after])
            if cut_after is not None:
                self.handler.close_connection = True

    def send_content(
        self, content: bytes, headers: dict[str, str] | None = None, **bent: typing.Any
    ) -> bool:
        """Send a file, or the range of it that was asked for."""
        found = re.match(r"bytes=(\d+)-(\d*)$", self.handler.headers.get("Range") or "")
        if not found:
            return self.send(200, content, headers, **bent)
        first = int(found[1])
        last = min(int(found[2] or len(content)), len(content) - 1)
        if first >= len(content):
            return self.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        said = {"Content-Range": f"bytes {first}-{last}/{len(content)}", **(headers or {})}
        return self.send(206, memoryview(content)[first : last + 1], said, **bent)


class LocalHub(serving.Serving):
    """Both hubs on one port, their CDN on another; use as a context manager."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.repos: dict[str, Repo] = {}
        self.seen: list[Seen] = []
        self.fault: Fault = lambda exchange: False
        self.page_size = 1000
        self.listing: collections.abc.Callable[
            [list[dict[str, typing.Any]]], list[dict[str, typing.Any]]
        ]
        self.listing = lambda entries: entries
        api = _Server(self, address, _Handler)
        cdn = _Server(self, address, _Handler)
        super().__init__(api, cdn)
        self.url = f"http://{address}:{api.server_port}"
        # Another name for loopback: clients that compare hosts and not ports see a change too.
        name = address.replace("127.0.0.1", "localhost")
        self.cdn_url = f"http://{name}:{cdn.server_port}"

    def asked(self, kind: str) -> list[Seen]:
        """The requests of one kind, in the order they came."""
        return [seen for seen in self.seen if seen.kind == kind]

    def environ(self, **more: str) -> dict[str, str]:
        """What points a client here."""
        return {"HF_ENDPOINT": self.url, "MODELSCOPE_ENDPOINT": self.url, **more}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub: LocalHub, address: str, handler: type["_Handler"]) -> None:
        super().__init__((address, 0), handler)
        self.hub = hub

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed on purpose are no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are written apart; without this each small file costs a delayed ACK.
    disable_nagle_algorithm = True
    server: _Server

    def version_string(self) -> str:
        return SERVER

    def log_message(self, *_: object) -> None:
        """Tests look at `LocalHub.seen` instead."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        names = [urllib.parse.unquote(part) for part in parts.path.strip("/").split("/")]
        match names:
            case ["api", "models", owner, name, "revision", revision]:
                self._answer("revision", owner, name, "", lambda e, r: _revision(e, r, revision))
            case ["api", "models", owner, name, "tree", revision]:
                self._answer("tree", owner, name, "", lambda e, r: _tree(e, r, revision, query))
            case ["api", "v1", "models", owner, name, "repo", "files"]:
                self._answer("ms-list", owner, name, "", lambda e, r: _ms_list(e, r, query))
            case ["api", "v1", "models", owner, name, "repo"]:
                path = query.get("FilePath", "")
                self._answer("ms-file", owner, name, path, lambda e, r: _ms_file(e, r))
            case ["cdn", owner, name, *rest]:
                self._answer("cdn", owner, name, "/".join(rest), lambda e, r: _cdn(e, r, query))
            case [owner, name, "resolve", revision, *rest]:
                path = "/".join(rest)
                self._answer("resolve", owner, name, path, lambda e, r: _resolve(e, r, revision))
            case _:
                self._note("other")
                Exchange(self, "other", "", None).send(404)

    def _note(self, kind: str) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.hub.seen.append(Seen(kind=kind, target=self.path, headers=headers))

    def _answer(
        self,
        kind: str,
        owner: str,
        name: str,
        path: str,
        answer: collections.abc.Callable[[Exchange, Repo], object],
    ) -> None:
        self._note(kind)
        repo = self.server.hub.repos.get(f"{owner}/{name}")
        content = repo.files.get(path) if repo is not None else None
        exchange = Exchange(self, kind, path, content)
        if self.server.hub.fault(exchange):
            return
        if repo is None:
            exchange.send(404, headers=_error("RepoNotFound"))
        elif kind != "cdn" and not self._allowed(repo):
            status = 403 if self.headers.get("Authorization") else 401
            exchange.send(status, headers=_error("GatedRepo" if repo.gated else "RepoNotFound"))
        else:
            answer(exchange, repo)

    def _allowed(self, repo: Repo) -> bool:
        return repo.token is None or self.headers.get("Authorization") == f"Bearer {repo.token}"


def _error(code: str) -> dict[str, str]:
    return {"X-Error-Code": code, "X-Error-Message": f"{code}, says the fake hub"}


def _json(exchange: Exchange, body: object, headers: dict[str, str] | None = None) -> None:
    fields = {"Content-Type": "application/json", **(headers or {})}
    exchange.send(200, json.dumps(body).encode(), fields)


def _revision(exchange: Exchange, repo: Repo, revision: str) -> None:
    if revision not in (*repo.branches, repo.commit):
        exchange.send(404, headers=_error("RevisionNotFound"))
        return
    siblings = [{"rfilename": path} for path in repo.files]
    _json(exchange, {"id": "org/m", "modelId": "org/m", "sha": repo.commit, "siblings": siblings})


@functools.cache
def sha256(content: bytes) -> str:
    """LFS's name for a blob; a large one is hashed once."""
    return hashlib.sha256(content).hexdigest()


@functools.cache
def git_sha1(content: bytes) -> str:
    """git's name for a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(repo: Repo, path: str, content: bytes) -> dict[str, typing.Any]:
    entry: dict[str, typing.Any] = {"type": "file", "path": path, "size": len(content)}
    entry["oid"] = git_sha1(content)
    if repo.is_lfs(path):
        digest = sha256(content)
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
    return entry


def _tree(exchange: Exchange, repo: Repo, revision: str, query: dict[str, str]) -> None:
    if revision not in (*repo.branches, repo.commit):
        exchange.send(404, headers=_error("RevisionNotFound"))
        return
    folders = {parent for path in repo.files for parent in _parents(path)}
    entries = [{"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in folders]
    entries += [_entry(repo, path, content) for path, content in repo.files.items()]
    entries = exchange.hub.listing(entries)
    first = int(query.get("cursor", "0"))
    size = exchange.hub.page_size
    headers = {}
    if first + size < len(entries):
        base = f"{exchange.hub.url}{exchange.handler.path.partition('?')[0]}"
        following = f"{base}?recursive=true&expand=false&cursor={first + size}"
        headers["Link"] = f'<{following}>; rel="next"'
    _json(exchange, entries[first : first + size], headers)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts)) if all(parts[:count])]


def _resolve(exchange: Exchange, repo: Repo, revision: str) -> None:
    content = exchange.content
    if content is None or revision not in (*repo.branches, repo.commit):
        exchange.send(404, headers=_error("EntryNotFound"))
        return
    headers = {"X-Repo-Commit": repo.commit}
    if not repo.is_lfs(exchange.path):
        exchange.send_content(content, {**headers, "ETag": f'"{git_sha1(content)}"'})
        return
    name = exchange.handler.path.split("/resolve/")[0]
    signed = (
        f"{exchange.hub.cdn_url}/cdn{name}/{urllib.parse.quote(exchange.path)}?Signature=s3cr3t"
    )
    digest = sha256(content)
    headers |= {
        "X-Linked-Etag": f'"{digest}"',
        "X-Linked-Size": str(len(content)),
        "Location": signed,
    }
    exchange.send(302, headers=headers)


def _cdn(exchange: Exchange, repo: Repo, query: dict[str, str]) -> None:
    if exchange.content is None or query.get("Signature") != "s3cr3t":
        exchange.send(403)
        return
    digest = sha256(exchange.content)
    exchange.send_content(exchange.content, {"ETag": f'"{digest}"', "Accept-Ranges": "bytes"})


def _ms_list(exchange: Exchange, repo: Repo, query: dict[str, str]) -> None:
    root = query.get("Root", "")
    prefix = f"{root}/" if root else ""
    deep = query.get("Recursive") == "True"
    below = {path: content for path, content in repo.files.items() if path.startswith(prefix)}
    folders = {parent for path in below for parent in _parents(path) if parent.startswith(prefix)}
    shown = [p for p in folders if deep or "/" not in p[len(prefix) :]]
    entries: list[dict[str, typing.Any]] = [
        {"Path": p, "Name": p.rpartition("/")[2], "Type": "tree", "Size": 0} for p in sorted(shown)
    ]
    entries += [
        {
            "Path": path,
            "Name": path.rpartition("/")[2],
            "Type": "blob",
            "Size": len(content),
            "Sha256": sha256(content),
        }
        for path, content in below.items()
        if deep or "/" not in path[len(prefix) :]
    ]
    # The real server's silent cap.
    files = exchange.hub.listing(entries)[:3000]
    _json(exchange, {"Code": 200, "Success": True, "Message": "", "Data": {"Files": files}})


def _ms_file(exchange: Exchange, repo: Repo) -> None:
    if exchange.content is None:
        exchange.send(404)
    else:
        exchange.send_content(exchange.content)
