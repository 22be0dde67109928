"""The marker: what was staged, written last. Without one, whatever lies in a folder is not staged.

Markers live in `.noctaya/` at the cache's root, one per request, out of reach of any name that a
repository can hold. A request is the URI with its patterns, so a look at the marker answers a
second run without asking anybody.
"""

import collections.abc
import dataclasses
import hashlib
import json
import pathlib
import typing

import fetcher
from fetcher import disk, layout, plans, uris

FOLDER = ".noctaya"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StagedFile:
    """A file on the volume and the hash it had when it was written."""

    path: str
    size: int
    proof: plans.Proof


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What a run was asked to stage."""

    source: uris.Source
    patterns: plans.Patterns

    @property
    def key(self) -> str:
        """The same for the same request, whoever makes it."""
        patterns = [sorted(self.patterns.include), sorted(self.patterns.exclude)]
        return hashlib.sha256(json.dumps([str(self.source), patterns]).encode()).hexdigest()[:32]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Marker:
    """A staged model. `folder` is relative to the cache."""

    source: str
    resolved: str
    folder: str
    patterns: plans.Patterns
    files: tuple[StagedFile, ...]

    @property
    def total(self) -> int:
        return sum(file.size for file in self.files)

    def dump(self) -> bytes:
        body = {
            "source": self.source,
            "resolved": self.resolved,
            "folder": self.folder,
            "include": list(self.patterns.include),
            "exclude": list(self.patterns.exclude),
            "files": [
                {"path": file.path, "size": file.size, "hash": str(file.proof)}
                for file in sorted(self.files, key=lambda file: file.path)
            ],
            "tool": f"noctaya-fetch {fetcher.VERSION}",
        }
        return json.dumps(body, indent=1).encode() + b"\n"


def path_of(root: pathlib.Path, request: Request) -> pathlib.Path:
    return root / FOLDER / f"{request.key}.json"


def read(path: pathlib.Path) -> Marker | None:
    """A marker, or None where there is none that can be understood."""
    try:
        return _parse(json.loads(path.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def read_all(root: pathlib.Path) -> collections.abc.Iterator[tuple[pathlib.Path, Marker]]:
    """Every marker of a cache."""
    for path in sorted((root / FOLDER).glob("*.json")):
        if (marker := read(path)) is not None:
            yield path, marker


def differences(root: pathlib.Path, marker: Marker) -> list[str]:
    """What a look without reading finds wrong: names, kinds and sizes."""
    folder = root / marker.folder
    if folder.is_symlink() or not folder.is_dir():
        return [f"{folder} is not there"]
    found = disk.files_below(folder)
    wrong: list[str] = []
    for file in marker.files:
        entry = found.get(file.path)
        if entry is None:
            wrong.append(f"{file.path!a} is missing")
        elif not disk.is_plain(entry):
            wrong.append(f"{file.path!a} is not a plain file")
        elif entry.st_size != file.size:
            wrong.append(f"{file.path!a} has {entry.st_size} bytes, not {file.size}")
    return wrong


def write(root: pathlib.Path, request: Request, marker: Marker) -> None:
    """Write the marker durably; from then on the model is staged."""
    with disk.named(root):
        folder = disk.make_folders(root, pathlib.PurePosixPath(FOLDER))
        disk.write_durably(folder / f"{request.key}.json", marker.dump())
        (folder / f"{request.key}.promised").unlink(missing_ok=True)


def write_refs(root: pathlib.Path, where: layout.Place, resolved: str) -> None:
    """Point each ref at the staged commit; one that does so already is not written."""
    with disk.named(root):
        for ref in where.refs:
            if not ref_is(root / ref, resolved):
                disk.make_folders(root, ref.parent)
                disk.write_durably(root / ref, resolved.encode())


def promise(root: pathlib.Path, request: Request, marker: Marker) -> None:
    """Say durably what a folder will hold that is about to get its name.

    Only for what was unpacked: a run that is killed before the marker leaves a folder whose files
    no plan can prove, since the plan knows the packed bytes only.
    """
    with disk.named(root):
        folder = disk.make_folders(root, pathlib.PurePosixPath(FOLDER))
        disk.write_durably(folder / f"{request.key}.promised", marker.dump())


def promised(root: pathlib.Path, request: Request) -> Marker | None:
    """What an earlier run promised for a request, if it did not come to the marker."""
    return read(root / FOLDER / f"{request.key}.promised")


def ref_is(path: pathlib.Path, resolved: str) -> bool:
    """Whether a ref points at a commit, by exactly its bytes."""
    try:
        return path.read_bytes() == resolved.encode()
    except OSError:
        return False


def _parse(body: typing.Any) -> Marker:
    return Marker(
        source=body["source"],
        resolved=body["resolved"],
        folder=body["folder"],
        patterns=plans.Patterns(include=tuple(body["include"]), exclude=tuple(body["exclude"])),
        files=tuple(
            StagedFile(path=file["path"], size=file["size"], proof=_proof(file["hash"]))
            for file in body["files"]
        ),
    )


def _proof(text: str) -> plans.Proof:
    algorithm, _, digest = text.partition(":")
    if algorithm not in ("sha256", "git-sha1") or not digest:
        raise ValueError(f"{text!r} is not a hash")
    return plans.Proof(algorithm=algorithm, hex=digest)
