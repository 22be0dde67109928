"""ModelScope, over its plain HTTP interface.

    GET /api/v1/models/ORG/NAME/repo/files?Revision&Recursive   -> paths, sizes, sha256
    GET /api/v1/models/ORG/NAME/repo?Revision&FilePath          -> bytes, or a redirect to a CDN

A branch is not resolved to a commit here, so what a plan resolves to is a digest over the listing
itself, and every file without a sha256 is refused. A listing silently ends at 3000 entries; a
longer tree is walked folder by folder.
"""

import hashlib
import json
import re
import typing
import urllib.parse

from fetcher import errors, names, plans, sources, transport, uris
from fetcher.sources import replies

_DEFAULT_ENDPOINT = "https://www.modelscope.cn"
_HEX64 = re.compile(r"[0-9a-f]{64}")
# The server's cap on one listing; it says neither that it cut nor how much (modelscope_hub's
# constants name it, and no paging parameter is honoured).
_LISTING_CAP = 3000
# A tree that needs more requests than this has more files than are taken, or no end.
_MAX_LISTINGS = 1000


class ModelScope:
    """One model of ModelScope."""

    def __init__(self, model: uris.ModelScopeModel, access: sources.Access) -> None:
        self._model = model
        self._client = access.client
        self._endpoint = replies.endpoint_from(
            access.environ, "MODELSCOPE_ENDPOINT", _DEFAULT_ENDPOINT, scheme="https"
        )
        self._base = f"{self._endpoint}/api/v1/models/{model.owner}/{model.name}"
        token = replies.secret_from(access.environ, "MODELSCOPE_API_TOKEN")
        self._listings = 0
        self._secrets = (
            {"Authorization": f"Bearer {token}", "Cookie": f"m_session_id={token}"} if token else {}
        )

    def plan(self) -> plans.Plan:
        """List the revision's files."""
        self._listings = 0
        files = tuple(self._walk(""))
        if not files:
            raise errors.NotFound(f"{self._model} has no files")
        stated = sorted((file.path, file.size, file.proof.hex) for file in files)
        digest = hashlib.sha256(json.dumps(stated).encode()).hexdigest()
        return plans.Plan(resolved=f"sha256:{digest}", files=files)

    def open(self, file: plans.RemoteFile, start: int, end: int) -> transport.Answer:
        """Open a file at an offset; the token stays with the endpoint."""
        headers = {} if (start, end) == (0, file.size) else {"Range": f"bytes={start}-{end - 1}"}
        answer = self._client.open(file.locator, headers=headers, secrets=self._secrets)
        if answer.status in (200, 206):
            return answer
        with answer:
            if transport.origin(answer.url) != transport.origin(file.locator):
                # Each try asks the endpoint for a new signed address, so this may heal.
                shown = uris.without_secrets(answer.url)
                raise errors.Transient(f"{shown} refuses a fresh address with {answer.status}")
            self._raise_for(answer, f"{file.path!r} of {self._model}")

    def _walk(self, root: str) -> typing.Iterator[plans.RemoteFile]:
        entries = self._listing(root, recursive=True)
        if len(entries) < _LISTING_CAP:
            yield from (self._file(entry) for entry in entries if entry.get("Type") != "tree")
            return
        entries = self._listing(root, recursive=False)
        if len(entries) >= _LISTING_CAP:
            raise errors.BadRemote(
                f"{self._model} has a folder {root or '/'!r} with {_LISTING_CAP} entries or more, "
                "which ModelScope does not list completely: take the model from another source"
            )
        for entry in entries:
            if entry.get("Type") == "tree":
                yield from self._walk(self._subfolder(root, entry))
            else:
                yield self._file(entry)

    def _subfolder(self, root: str, entry: dict[str, typing.Any]) -> str:
        path = entry.get("Path")
        # A folder outside the one that was listed would make the walk endless.
        if not isinstance(path, str) or not path.startswith(f"{root}/" if root else ""):
            raise errors.BadRemote(
                f"{self._endpoint} lists folder {ascii(path)[:120]} below {root!r}"
            )
        names.check(path)
        if path == root:
            raise errors.BadRemote(f"{self._endpoint} lists folder {path!r} inside itself")
        return path

    def _listing(self, root: str, *, recursive: bool) -> list[dict[str, typing.Any]]:
        self._listings += 1
        if self._listings > _MAX_LISTINGS:
            raise errors.Refused(
                f"{self._model} has more folders than {_MAX_LISTINGS} listings show"
            )
        query = {"Revision": self._model.revision, "Recursive": str(recursive)}
        if root:
            query["Root"] = root
        url = f"{self._base}/repo/files?{urllib.parse.urlencode(query)}"
        with self._client.open(url, secrets=self._secrets) as answer:
            if answer.status != 200:
                self._raise_for(answer, str(self._model))
            found = replies.load_json(answer, "a list of files")
        data = found.get("Data") if isinstance(found, dict) else None
        files = data.get("Files") if isinstance(data, dict) else None
        failed = not isinstance(found, dict) or found.get("Success") is False
        if failed or not isinstance(files, list) or not all(isinstance(e, dict) for e in files):
            said = found.get("Message") if isinstance(found, dict) else None
            raise errors.BadRemote(
                f"{self._endpoint} does not list {self._model} (it says {ascii(said)[:200]}): "
                "check the name, the revision and MODELSCOPE_ENDPOINT"
            )
        return files

    def _file(self, entry: dict[str, typing.Any]) -> plans.RemoteFile:
        path, size, digest = entry.get("Path"), entry.get("Size"), entry.get("Sha256")
        if entry.get("Type") != "blob" or not isinstance(path, str):
            raise errors.BadRemote(f"{self._endpoint} lists {ascii(entry)[:200]}, not a file")
        if not replies.is_size(size) or not isinstance(digest, str) or not _HEX64.fullmatch(digest):
            raise errors.BadRemote(
                f"{self._endpoint} lists {ascii(path)[:120]} without a usable Size and Sha256: "
                "nothing would prove its bytes"
            )
        query = urllib.parse.urlencode(
            {"Revision": self._model.revision, "FilePath": path}, errors="surrogatepass"
        )
        return plans.RemoteFile(
            path=path,
            size=size,
            proof=plans.Proof(algorithm="sha256", hex=digest),
            locator=f"{self._base}/repo?{query}",
        )

    def _raise_for(self, answer: transport.Answer, what: str) -> typing.NoReturn:
        replies.raise_if_transient(answer)
        if answer.status in (401, 403):
            token = "the token" if self._secrets else "nobody (MODELSCOPE_API_TOKEN is not set)"
            raise errors.Unauthorized(
                f"{what} is refused to {token} ({answer.status}): set MODELSCOPE_API_TOKEN from a "
                "Secret to a token that may read it"
            )
        if answer.status == 404:
            raise errors.NotFound(f"{what} is not at {self._endpoint}: check the name and revision")
        raise replies.unexpected(answer, what)
