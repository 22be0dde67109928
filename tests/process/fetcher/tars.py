"""Packs tars as ORAS does, and as somebody who means harm does."""

import gzip
import io
import tarfile
import typing


def file(name: str, content: bytes, **bent: typing.Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, size=len(content), **bent), content


def entry(name: str, **bent: typing.Any) -> tarfile.TarInfo:
    """An entry with any field bent: type, linkname, mode, uid, size."""
    info = tarfile.TarInfo(name)
    for field, value in bent.items():
        setattr(info, field, value)
    return info


def pack(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for item in entries:
            info, content = item if isinstance(item, tuple) else (item, None)
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    return out.getvalue()


def damaged(tar: bytes, offset: int) -> bytes:
    """A tar with one byte changed."""
    return tar[:offset] + bytes([tar[offset] ^ 1]) + tar[offset + 1 :]


def gz(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=6, mtime=0)
