"""OCI image archives written by hand, for images that are one layer of a few files."""

import hashlib
import io
import json
import pathlib
import platform
import tarfile
from collections.abc import Mapping, Sequence

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def write(
    archive: pathlib.Path,
    *,
    files: Mapping[str, pathlib.Path],
    links: Mapping[str, str],
    folders: Sequence[str],
    entrypoint: Sequence[str],
    user: str = "",
) -> None:
    """Write one image, without a name: whoever imports it gives one.

    Every file is executable, every folder is open like /tmp. It runs as root where no ``user`` is
    named.
    """
    layer = _layer(files, links, folders)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin:/usr/bin"], "User": user},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    config_bytes = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, config_bytes),
        "layers": [_descriptor(_LAYER, layer)],
    }
    manifest_bytes = json.dumps(manifest).encode()
    index = {"schemaVersion": 2, "manifests": [_descriptor(_MANIFEST, manifest_bytes)]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in (layer, config_bytes, manifest_bytes):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


def _layer(
    files: Mapping[str, pathlib.Path], links: Mapping[str, str], folders: Sequence[str]
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in folders:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        for name, source in files.items():
            _add(tar, name, source.read_bytes(), mode=0o755)
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
