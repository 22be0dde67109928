"""OCI registries: one artifact, pinned by its manifest's digest.

The manifest's bytes are hashed before they are parsed, so nothing that a registry, a proxy or its
disk changed is ever looked at; from there each layer's digest proves its bytes.
"""

import hashlib
import typing

from fetcher import errors, plans, sources, transport, uris
from fetcher.sources import challenges, dockerconfig, manifests, replies

_ACCEPT = ", ".join((*manifests.MANIFEST_TYPES, *manifests.INDEX_TYPES))
# The size that registries accept for a manifest.
_MANIFEST_BYTES = 4 * 1024 * 1024
_DOCKER_HUB_HOST = "registry-1.docker.io"


class Registry:
    """One artifact of a registry."""

    def __init__(self, artifact: uris.Artifact, access: sources.Access) -> None:
        self._artifact = artifact
        self._client = access.client
        host, repository = artifact.registry, artifact.repository
        if host in ("docker.io", "index.docker.io"):
            host = _DOCKER_HUB_HOST
            repository = repository if "/" in repository else f"library/{repository}"
        scheme = "http" if access.plain_http else "https"
        self._base = f"{scheme}://{host}/v2/{repository}"
        credentials = dockerconfig.Credentials()
        if access.registry_auth is not None:
            credentials = dockerconfig.load(access.registry_auth, artifact.registry, repository)
        self._keys = challenges.Keys(
            access.client, credentials, registry=host, repository=repository, scheme=scheme
        )

    def plan(self) -> plans.Plan:
        """Read the pinned manifest, or the one of this machine's kind in a pinned index."""
        what = str(self._artifact)
        manifest = self._manifest(self._artifact.digest)
        if (
            manifest.get("manifests") is not None
            or manifest.get("mediaType") in manifests.INDEX_TYPES
        ):
            manifest = self._manifest(manifests.child(manifest, what))
        return plans.Plan(resolved=self._artifact.digest, files=manifests.files(manifest, what))

    def open(self, file: plans.RemoteFile, start: int, end: int) -> transport.Answer:
        """Open a blob at an offset."""
        headers = {} if (start, end) == (0, file.size) else {"Range": f"bytes={start}-{end - 1}"}
        return self._get(
            f"{self._base}/blobs/{file.locator}", headers, f"{file.path!r} ({file.locator})"
        )

    def _manifest(self, digest: str) -> dict[str, typing.Any]:
        url = f"{self._base}/manifests/{digest}"
        with self._get(url, {"Accept": _ACCEPT}, f"{self._artifact}") as answer:
            body = answer.read(_MANIFEST_BYTES)
            found = f"sha256:{hashlib.sha256(body).hexdigest()}"
            if found != digest:
                replies.parse_json(body, answer, "a manifest")
                raise errors.Mismatch(
                    f"{uris.without_secrets(url)} answers a manifest with digest {found}: the "
                    "registry or a proxy changed it"
                )
            manifest = replies.parse_json(body, answer, "a manifest")
        if not isinstance(manifest, dict):
            raise errors.Refused(f"{self._artifact} is not a manifest")
        return manifest

    def _get(self, url: str, headers: dict[str, str], what: str) -> transport.Answer:
        key = self._keys.header()
        answer = self._open(url, headers, key)
        if answer.status == 401:
            with answer:
                answer.read(_MANIFEST_BYTES)
                offered = challenges.parse(
                    ", ".join(answer.headers.get_all("WWW-Authenticate", []))
                )
            renewed = self._keys.renew(key, offered)
            if renewed is None:
                raise self._keys.denied(401, what)
            answer = self._open(url, headers, renewed)
        if answer.status in (200, 206):
            return answer
        with answer:
            self._raise_for(answer, what)

    def _open(self, url: str, headers: dict[str, str], key: str | None) -> transport.Answer:
        secrets = {"Authorization": key} if key else {}
        return self._client.open(url, headers=headers, secrets=secrets)

    def _raise_for(self, answer: transport.Answer, what: str) -> typing.NoReturn:
        replies.raise_if_transient(answer)
        if transport.origin(answer.url) != transport.origin(self._base):
            # The registry's own store; another try gets a newly signed address.
            shown = uris.without_secrets(answer.url)
            raise errors.Transient(f"{shown} refuses a fresh address with {answer.status}")
        if answer.status in (401, 403):
            raise self._keys.denied(answer.status, what)
        said = challenges.problem(answer.read(replies.MAX_JSON_BYTES))
        if answer.status == 404:
            raise errors.NotFound(f"{what} is not at {self._base}: {said}")
        raise errors.BadRemote(f"{self._base} answers {answer.status} for {what}: {said}")
