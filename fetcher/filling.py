"""Fills a partial folder with what a plan promises, beginning from what is there already."""

import collections.abc
import contextlib
import dataclasses
import os
import pathlib

from fetcher import (
    disk,
    download,
    errors,
    markers,
    names,
    partials,
    plans,
    progress,
    retry,
    sources,
    streams,
    unpack,
)

# Left free for the volume's own tables and for markers.
_RESERVE_BYTES = 1024 * 1024
_BLOCK = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer:
    """How bytes come. `abort` cuts the source's connections; `connections` is also the threads."""

    source: sources.Source
    tries: retry.Tries
    abort: collections.abc.Callable[[], None]
    bar: progress.Progress
    connections: int
    idle_seconds: float


def keep_usable(plan: plans.Plan, folder: pathlib.Path) -> int:
    """Remove leftovers that cannot be part of the plan; returns the bytes that may be used."""
    sizes = {file.path: file.size for file in plan.files if file.packing is None}
    kept = 0
    for name, found in disk.files_below(folder).items():
        size = sizes.get(name)
        if size is None or not disk.is_plain(found) or found.st_size > size:
            (folder / name).unlink()
        else:
            kept += found.st_size
    wanted = {parent for name in sizes for parent in pathlib.PurePosixPath(name).parents}
    for path in (pathlib.Path(found) for found, _, _ in os.walk(folder, topdown=False)):
        if path != folder and pathlib.PurePosixPath(path.relative_to(folder)) not in wanted:
            with contextlib.suppress(OSError):
                path.rmdir()
    return kept


def check_space(root: pathlib.Path, what: str, plan: plans.Plan, kept: int) -> None:
    """Refuse a plan that the volume cannot hold besides the `kept` bytes that are there."""
    if (found := shortage(root, what, plan, kept)) is not None:
        raise errors.NoSpace(found)


def left_over(root: pathlib.Path) -> int:
    """Bytes in partial folders, of which a run may use some: at most what it need not fetch."""
    left = 0
    for partial in root.glob(".partial-*"):
        with contextlib.suppress(OSError):  # Gone meanwhile: its run has ended.
            left += sum(found.st_size for found in disk.files_below(partial).values())
    return left


def shortage(root: pathlib.Path, what: str, plan: plans.Plan, kept: int) -> str | None:
    """In words, that the volume cannot hold a plan besides the `kept` bytes; None where it can."""
    needs = sum(-(-file.size // _BLOCK) * _BLOCK for file in plan.files) - kept + _RESERVE_BYTES
    has = disk.free_bytes(root)
    if needs <= has:
        return None
    return (
        f"{what} needs {progress.size(needs)} more, the volume has "
        f"{progress.size(has)} free: ask for a larger volume or remove what is not needed"
    )


def fetch(
    transfer: Transfer, plan: plans.Plan, partial: partials.Partial
) -> list[markers.StagedFile]:
    """Fetch every file of the plan and unpack what is packed; proven when this returns."""
    transfer.bar.expect(plan.total)
    plain = [file for file in plan.files if file.packing is None]
    with disk.named(partial.files):
        for folder in sorted({pathlib.PurePosixPath(file.path).parent for file in plain}):
            disk.make_folders(partial.files, folder)
    reader = streams.Reader(transfer.source, transfer.tries, idle_seconds=transfer.idle_seconds)
    downloads = download.Downloads(
        reader,
        partial.files,
        advance=transfer.bar.advance,
        may_write=partial.may_write,
        abort=transfer.abort,
    )
    downloads.run(plain, transfer.connections)
    files = [markers.StagedFile(path=f.path, size=f.size, proof=f.proof) for f in plain]
    return files + _unpack_all(transfer, plan, reader, partial)


class _Target:
    """Where packed directories go: names may not meet across layers either."""

    def __init__(self, partial: partials.Partial, plain: collections.abc.Iterable[str]) -> None:
        self.folder = partial.files
        self.may_write = partial.may_write
        self._taken = list(plain)
        self._folded = {names.fold(path) for path in self._taken}

    def take_name(self, path: str) -> None:
        if names.fold(path) in self._folded:
            raise errors.Refused(f"{path!a} is there twice")
        self._folded.add(names.fold(path))


def _unpack_all(
    transfer: Transfer, plan: plans.Plan, reader: streams.Reader, partial: partials.Partial
) -> list[markers.StagedFile]:
    target = _Target(partial, (file.path for file in plan.files if file.packing is None))
    found: list[markers.StagedFile] = []
    for file in plan.files:
        if file.packing is None:
            continue
        views = _counted(_any_stretch(reader, file), transfer.bar)
        found += [
            markers.StagedFile(
                path=item.path,
                size=item.size,
                proof=plans.Proof(algorithm="sha256", hex=item.sha256),
            )
            for item in unpack.unpack(file, file.packing, views, target)
        ]
    return found


def _any_stretch(
    reader: streams.Reader, file: plans.RemoteFile
) -> collections.abc.Iterator[memoryview]:
    """A whole file in order, also of a server that knows no ranges."""
    read = 0
    try:
        for view in reader.stretch(file, 0, file.size):
            read += len(view)
            yield view
    except streams.NoRanges:
        yield from reader.whole(file, read)


def _counted(
    views: collections.abc.Iterator[memoryview], bar: progress.Progress
) -> collections.abc.Iterator[memoryview]:
    for view in views:
        bar.advance(len(view))
        yield view


def check_exactly(folder: pathlib.Path, files: list[markers.StagedFile]) -> None:
    """The folder holds the files of the plan, as plain files, and nothing else."""
    found = disk.files_below(folder)
    wanted = {file.path: file.size for file in files}
    if {name: entry.st_size for name, entry in found.items()} != wanted or not all(
        disk.is_plain(entry) for entry in found.values()
    ):
        raise errors.Mismatch(
            f"{folder} holds other files than were written: something else writes to this volume"
        )
