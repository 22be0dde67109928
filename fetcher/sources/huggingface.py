"""The Hugging Face Hub and its mirrors, over the Hub's plain HTTP interface.

    GET /api/models/ORG/NAME/revision/REVISION       -> the commit
    GET /api/models/ORG/NAME/tree/COMMIT?recursive   -> paths, sizes, sha256 (LFS) or git-sha1
    GET /ORG/NAME/resolve/COMMIT/PATH                -> bytes, mostly by a redirect to a CDN

The commit is asked for once and everything else is asked of the commit, so a push in between
changes nothing. The token goes to HF_ENDPOINT and never to where it redirects.
"""

import re
import threading
import typing
import urllib.parse

from fetcher import errors, names, plans, sources, transport, uris
from fetcher.sources import replies

_DEFAULT_ENDPOINT = "https://huggingface.co"
# A page has a thousand entries, and a model at most a hundred thousand files.
_MAX_PAGES = 1000
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_HEX40 = re.compile(r"[0-9a-f]{40}")
_HEX64 = re.compile(r"[0-9a-f]{64}")
# Statuses with which a CDN refuses a signed address that has grown old.
_STALE = frozenset({400, 401, 403, 404, 410})


class Hub:
    """One model of a hub."""

    def __init__(self, model: uris.HubModel, access: sources.Access) -> None:
        self._model = model
        self._client = access.client
        self._repo = f"{model.owner}/{model.name}"
        self._endpoint = replies.endpoint_from(access.environ, "HF_ENDPOINT", _DEFAULT_ENDPOINT)
        token = replies.secret_from(access.environ, "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
        if token is None and (path := access.environ.get("HF_TOKEN_PATH")):
            token = replies.secret_from_file(path, "HF_TOKEN_PATH")
        self._secrets = {"Authorization": f"Bearer {token}"} if token else {}
        self._commit = model.revision
        self._lock = threading.Lock()
        self._resolved: dict[str, str] = {}

    def plan(self) -> plans.Plan:
        """Resolve the revision to a commit and list that commit's files."""
        if not uris.is_commit(self._model.revision):
            self._commit = self._ask_commit()
        url = f"{self._endpoint}/api/models/{self._repo}/tree/{self._commit}"
        files: list[plans.RemoteFile] = []
        page = f"{url}?recursive=true&expand=false"
        for _ in range(_MAX_PAGES):
            following = self._list_page(page, files)
            if following is None:
                break
            page = following
        else:
            raise errors.Refused(f"{self._model} is listed on more than {_MAX_PAGES} pages")
        if not files:
            raise errors.NotFound(f"{self._model} has no files at commit {self._commit}")
        return plans.Plan(resolved=self._commit, files=tuple(files))

    def open(self, file: plans.RemoteFile, start: int, end: int) -> transport.Answer:
        """Open a file through its last known address, or ask the hub for a new one."""
        headers = _range_header(file, start, end)
        with self._lock:
            known = self._resolved.get(file.path)
        if known is not None:
            answer = self._client.open(known, headers=headers)
            if answer.status not in _STALE:
                return self._usable(answer, file)
            with answer, self._lock:
                self._resolved.pop(file.path, None)
        answer = self._client.open(file.locator, headers=headers, secrets=self._secrets)
        if transport.origin(answer.url) != transport.origin(file.locator):
            return self._from_elsewhere(answer, file)
        return self._usable(answer, file)

    def _from_elsewhere(self, answer: transport.Answer, file: plans.RemoteFile) -> transport.Answer:
        """An answer of the CDN that the hub points to; its refusals are not the hub's."""
        if answer.status in _STALE:
            with answer:
                shown = uris.without_secrets(answer.url)
                raise errors.Transient(f"{shown} refuses a fresh address with {answer.status}")
        usable = self._usable(answer, file)
        with self._lock:
            self._resolved[file.path] = answer.url
        return usable

    def _usable(self, answer: transport.Answer, file: plans.RemoteFile) -> transport.Answer:
        if answer.status in (200, 206):
            return answer
        with answer:
            self._raise_for(answer, f"{file.path!r} of {self._model}")

    def _ask_commit(self) -> str:
        quoted = urllib.parse.quote(self._model.revision, safe="")
        found = self._get_json(f"{self._endpoint}/api/models/{self._repo}/revision/{quoted}")
        commit = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(commit, str) or not _HEX40.fullmatch(commit):
            raise errors.BadRemote(
                f"{self._endpoint} names no commit for {self._model}: is HF_ENDPOINT a hub?"
            )
        return commit

    def _list_page(self, url: str, files: list[plans.RemoteFile]) -> str | None:
        """Add one page of the listing; returns where the next one is."""
        with self._client.open(url, secrets=self._secrets) as answer:
            if answer.status != 200:
                self._raise_for(answer, str(self._model))
            entries = replies.load_json(answer, "a list of files")
            link = _NEXT.search(answer.headers.get("Link") or "")
        if not isinstance(entries, list):
            raise errors.BadRemote(f"{self._endpoint} lists no files: is HF_ENDPOINT a hub?")
        files.extend(self._file(e) for e in entries if _kind(e) != "directory")
        if len(files) > names.MAX_FILES:
            raise errors.Refused(f"{self._model} has more than {names.MAX_FILES} files")
        if link is None or not entries:
            return None
        following = transport.joined(url, link[1])
        if transport.origin(following) != transport.origin(url):
            raise errors.BadRemote(
                f"{self._endpoint} continues its listing on another host: refused"
            )
        return following

    def _file(self, entry: typing.Any) -> plans.RemoteFile:
        path = entry.get("path") if isinstance(entry, dict) else None
        if _kind(entry) != "file" or not isinstance(path, str):
            raise errors.BadRemote(f"{self._endpoint} lists {ascii(entry)[:200]}, not a file")
        lfs = entry.get("lfs")
        size = lfs.get("size") if isinstance(lfs, dict) else entry.get("size")
        digest = lfs.get("oid") if isinstance(lfs, dict) else entry.get("oid")
        shape, algorithm = (_HEX64, "sha256") if isinstance(lfs, dict) else (_HEX40, "git-sha1")
        if not replies.is_size(size) or not isinstance(digest, str) or not shape.fullmatch(digest):
            raise errors.BadRemote(
                f"{self._endpoint} lists {ascii(path)[:120]} without a usable size and "
                f"{algorithm}: nothing would prove its bytes"
            )
        return plans.RemoteFile(
            path=path,
            size=size,
            proof=plans.Proof(algorithm=algorithm, hex=digest),
            locator=f"{self._endpoint}/{self._repo}/resolve/{self._commit}/"
            + urllib.parse.quote(path, errors="surrogatepass"),
        )

    def _get_json(self, url: str) -> typing.Any:
        with self._client.open(url, secrets=self._secrets) as answer:
            if answer.status != 200:
                self._raise_for(answer, str(self._model))
            return replies.load_json(answer, "JSON")

    def _raise_for(self, answer: transport.Answer, what: str) -> typing.NoReturn:
        """Say what a refusal means. The Hub's own word for it is a header, not the status."""
        replies.raise_if_transient(answer)
        code = answer.headers.get("X-Error-Code") or ""
        page = f"{self._endpoint}/{self._repo}"
        token = "HF_TOKEN's account" if self._secrets else "nobody (HF_TOKEN is not set)"
        if code == "GatedRepo":
            raise errors.Unauthorized(
                f"{what} is gated and {token} has no access: accept the licence at {page} and set "
                "HF_TOKEN from a Secret"
            )
        if code == "RevisionNotFound":
            raise errors.NotFound(f"{what}: {page} has no revision {self._model.revision!r}")
        if code == "EntryNotFound":
            raise errors.NotFound(f"{what} is listed, but {page} does not have it")
        if code == "RepoNotFound" or answer.status == 404:
            raise errors.NotFound(
                f"{what} does not exist, or is private and {token} may not see it: check the name, "
                "or set HF_TOKEN from a Secret"
            )
        if answer.status in (401, 403):
            raise errors.Unauthorized(
                f"{what} is refused to {token} ({answer.status}): set HF_TOKEN from a Secret to a "
                "token that may read it"
            )
        raise replies.unexpected(answer, what)


def _kind(entry: typing.Any) -> object:
    return entry.get("type") if isinstance(entry, dict) else None


def _range_header(file: plans.RemoteFile, start: int, end: int) -> dict[str, str]:
    return {} if (start, end) == (0, file.size) else {"Range": f"bytes={start}-{end - 1}"}
