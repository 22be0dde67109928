"""Reads OCI manifests into plans. Pure; the manifest's own digest was checked before.

Taken are the artifacts that ORAS pushes: titled files and packed directories. An image, an empty
artifact or another project's packaging is refused in words, since guessing would stage something
that no runtime finds.
"""

import platform
import typing

from fetcher import errors, plans, uris

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TITLE = "org.opencontainers.image.title"
_UNPACK = "io.deis.oras.content.unpack"
_CONTENT_DIGEST = "io.deis.oras.content.digest"
# What ORAS packs a directory as; files of any name are pushed as a plain tar layer.
_PACKED = "application/vnd.oci.image.layer.v1.tar+gzip"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def child(index: dict[str, typing.Any], what: str) -> str:
    """The digest of the one manifest of an index that is meant for this machine."""
    machine = platform.machine()
    here = ("linux", _ARCHITECTURES.get(machine, machine))
    fitting = [
        entry
        for entry in _objects(index.get("manifests"), what)
        if entry.get("mediaType") in MANIFEST_TYPES and _platform(entry) in (here, None)
    ]
    if len(fitting) != 1 or not uris.is_digest(fitting[0].get("digest")):
        raise errors.Refused(
            f"{what} is an index with {len(fitting)} manifests for {'/'.join(here)}: expected one; "
            "pin the digest of the manifest itself"
        )
    return typing.cast(str, fitting[0]["digest"])


def files(manifest: dict[str, typing.Any], what: str) -> tuple[plans.RemoteFile, ...]:
    """The files and packed directories of an artifact."""
    layers = _objects(manifest.get("layers"), what)
    if not layers:
        raise errors.Refused(f"{what} has no layers: there is nothing to stage")
    return tuple(_file(layer, what) for layer in layers)


def _file(layer: dict[str, typing.Any], what: str) -> plans.RemoteFile:
    digest, size, kind = layer.get("digest"), layer.get("size"), layer.get("mediaType")
    if not uris.is_digest(digest):
        raise errors.Refused(f"{what} has a layer with digest {ascii(digest)[:100]}: not sha256")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise errors.Refused(f"{what} has a layer of {ascii(size)[:40]} bytes: not a size")
    annotations = layer.get("annotations") or {}
    title = annotations.get(_TITLE) if isinstance(annotations, dict) else None
    if not isinstance(title, str):
        raise errors.Refused(
            f"{what} has a layer ({ascii(kind)[:100]}) without a title, so it is an image or "
            "another project's package: push the model's files with `oras push`"
        )
    packing = _packing(annotations, str(kind), what)
    return plans.RemoteFile(
        path=title,
        size=size,
        proof=plans.Proof(algorithm="sha256", hex=str(digest).removeprefix("sha256:")),
        locator=str(digest),
        packing=packing,
        warning=_kept_packed(title) if kind == _PACKED and packing is None else "",
    )


def _kept_packed(title: str) -> str:
    return (
        f"{title!a} is a packed directory by its kind and a file by its annotations: it is staged "
        f"as it is; to have it unpacked, push the directory itself, or set {_UNPACK}=true"
    )


def _packing(annotations: dict[str, typing.Any], kind: str, what: str) -> plans.Packing | None:
    """Only the annotation makes a layer a directory: a `.tar.gz` that is a file stays one."""
    if annotations.get(_UNPACK) != "true":
        return None
    if kind.endswith(("+zstd", ".zstd")):
        raise errors.Refused(
            f"{what} is packed with zstd, which is not supported: pack it with gzip"
        )
    stated = annotations.get(_CONTENT_DIGEST)
    if stated is not None and not uris.is_digest(stated):
        raise errors.Refused(f"{what} states content digest {ascii(stated)[:100]}: not sha256")
    content = (
        plans.Proof(algorithm="sha256", hex=stated.removeprefix("sha256:")) if stated else None
    )
    return plans.Packing(gzipped=kind.endswith(("gzip", "tgz")), content=content)


def _platform(entry: dict[str, typing.Any]) -> tuple[object, object] | None:
    found = entry.get("platform")
    return (found.get("os"), found.get("architecture")) if isinstance(found, dict) else None


def _objects(value: object, what: str) -> list[dict[str, typing.Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise errors.Refused(f"{what} is not a well-formed manifest")
    return value
