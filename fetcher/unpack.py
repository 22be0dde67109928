"""Unpacks a directory that ORAS packed as a tar stream, while it arrives.

A tar is a stranger's list of file operations. Of all that tar can do, only "make this folder" and
"make this file with these bytes" are done; a link, a device or a second file of the same name
refuses the whole artifact. Modes and owners in the stream are ignored.
"""

import collections.abc
import dataclasses
import os
import pathlib
import tarfile
import typing
import zlib

from fetcher import assembly, disk, errors, hashing, names, plans

# Weights hardly compress (1.0 to 1.3 times); text does to about a tenth. Beyond that and a
# constant for small tars it is a bomb.
_RATIO = 10
_SLACK_BYTES = 16 * 1024 * 1024
# Long names, times and owners, for which a plain header has no room, take less.
_LONG_HEADER_BYTES = 64 * 1024
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_HEADER_ERRORS: tuple[type[tarfile.HeaderError], ...] = (
    tarfile.InvalidHeaderError,  # type: ignore[attr-defined]
    tarfile.TruncatedHeaderError,  # type: ignore[attr-defined]
)
# zlib's number for "a gzip header and a 32 KiB window".
_GZIP = 31


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unpacked:
    """A file that came out of a tar, with the hash of what was written."""

    path: str
    size: int
    sha256: str


class Target(typing.Protocol):
    """Where unpacked files go, and what bounds them."""

    folder: pathlib.Path

    def may_write(self) -> None: ...

    def take_name(self, path: str) -> None:
        """Raises `Refused` where the name is bad or taken by another layer."""
        ...


def unpack(
    file: plans.RemoteFile,
    packing: plans.Packing,
    views: collections.abc.Iterator[memoryview],
    target: Target,
) -> list[Unpacked]:
    """Write the files of a packed directory below `target`; proves the layer before returning."""
    stream = _Stream(file, packing, views)
    # tarfile needs no more of a file than `read`.
    source = typing.cast(typing.IO[bytes], stream)
    found: list[Unpacked] = []
    try:
        with tarfile.open(
            fileobj=source, mode="r|", bufsize=assembly.BLOCK_BYTES, tarinfo=_Header
        ) as tar:
            for count, member in enumerate(tar, start=1):
                if count > names.MAX_FILES:
                    raise errors.Refused(
                        f"{file.path!r} holds more than {names.MAX_FILES} files and folders"
                    )
                if (unpacked := _member(file, tar, member, target)) is not None:
                    found.append(unpacked)
        stream.read_to_end()
    except (tarfile.TarError, zlib.error, ValueError, EOFError) as e:
        # Damage on the way looks the same as a bad tar; the layer's digest tells them apart.
        stream.prove_layer()
        said = str(e) if isinstance(e, _BadHeader) else type(e).__name__
        raise errors.Refused(f"{file.path!r} is not a well-formed tar: {said}") from e
    stream.prove_layer()
    stream.prove_content()
    if not found:
        raise errors.Refused(f"{file.path!r} unpacks to no files")
    return found


class _BadHeader(ValueError):
    """What no honest packer writes. Not tarfile's own error, which it takes for the end."""


class _Header(tarfile.TarInfo):
    """A header of a tar. tarfile reads what a long one announces into memory, so it is looked at
    before: a packed gigabyte of zeros is a small layer."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> typing.Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _LONG_HEADERS and found.size > _LONG_HEADER_BYTES:
            raise _BadHeader(f"a header of {found.size} bytes")
        return found

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> typing.Self:
        try:
            return super().fromtarfile(tarfile)
        except _HEADER_ERRORS as e:
            raise _BadHeader(str(e)) from e


def _member(
    file: plans.RemoteFile, tar: tarfile.TarFile, member: tarfile.TarInfo, target: Target
) -> Unpacked | None:
    path = member.name.removeprefix("./")
    if member.isdir() and path in ("", "."):
        return None
    path = path.rstrip("/") if member.isdir() else path
    names.check(path)
    if member.isdir():
        with disk.named(target.folder):
            disk.make_folders(target.folder, pathlib.PurePosixPath(path))
        return None
    if not member.isreg() or member.issparse():
        kind = "a link" if member.islnk() or member.issym() else "neither a file nor a folder"
        raise errors.Refused(f"{file.path!r} holds {path!a}, {kind}: pack plain files only")
    target.take_name(path)
    content = tar.extractfile(member)
    assert content is not None
    return _write(path, member.size, content, target)


def _write(path: str, size: int, content: typing.IO[bytes], target: Target) -> Unpacked:
    if size > (free := disk.free_bytes(target.folder)):
        raise errors.NoSpace(f"{path!a} needs {size} bytes, the volume has {free}")
    relative = pathlib.PurePosixPath(path)
    written, digest = 0, hashing.sha256()
    with disk.named(target.folder):
        disk.make_folders(target.folder, relative.parent)
        fd = disk.open_new(target.folder / relative)
    try:
        while block := content.read(assembly.BLOCK_BYTES):
            target.may_write()
            digest.update(block)
            with disk.named(target.folder):
                disk.write_all(fd, memoryview(block), written)
            written += len(block)
        with disk.named(target.folder):
            os.fsync(fd)
    finally:
        os.close(fd)
    if written != size:
        raise errors.Refused(f"{path!a} is cut short in its tar")
    return Unpacked(path=path, size=size, sha256=digest.hexdigest())


class _Stream:
    """The tar as a readable stream: hashed as it arrives, gunzipped, and held to its budget."""

    def __init__(
        self,
        file: plans.RemoteFile,
        packing: plans.Packing,
        views: collections.abc.Iterator[memoryview],
    ) -> None:
        self._file = file
        self._packing = packing
        self._views = views
        self._layer = hashing.start(file.proof, file.size)
        self._content = hashing.sha256()
        self._inflate = zlib.decompressobj(wbits=_GZIP)
        self._budget = file.size * _RATIO + _SLACK_BYTES if packing.gzipped else file.size

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the tar; empty at its end."""
        block = self._gunzipped(size) if self._packing.gzipped else self._received()
        self._content.update(block)
        self._budget -= len(block)
        if self._budget < 0:
            raise errors.Refused(
                f"{self._file.path!r} unpacks to more than {_RATIO} times its size: a bomb"
            )
        return block

    def read_to_end(self) -> None:
        """Pass over what follows the last entry."""
        while self.read(assembly.BLOCK_BYTES):
            pass

    def prove_layer(self) -> None:
        """Receive the rest of the layer and compare its digest."""
        while self._received():
            pass
        found = self._layer.hexdigest()
        if found != self._file.proof.hex:
            raise errors.Mismatch(
                f"{self._file.path!r} has sha256 {found} where {self._file.proof.hex} was "
                "promised: the registry changed or damaged it"
            )

    def prove_content(self) -> None:
        """Compare the digest of the tar itself, where the artifact states one."""
        stated = self._packing.content
        if stated is not None and self._content.hexdigest() != stated.hex:
            raise errors.Mismatch(f"{self._file.path!r} unpacks to other bytes than it states")

    def _received(self) -> bytes:
        view = next(self._views, None)
        if view is None:
            return b""
        self._layer.update(view)
        return bytes(view)

    def _gunzipped(self, size: int) -> bytes:
        while True:
            pending = self._inflate.unconsumed_tail or self._inflate.unused_data or self._received()
            if self._inflate.eof:
                if not pending:
                    return b""
                self._inflate = zlib.decompressobj(wbits=_GZIP)  # gzip streams may be chained.
            elif not pending:
                raise EOFError("the gzip stream ends early")
            if block := self._inflate.decompress(pending, size):
                return block
