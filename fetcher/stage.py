"""The one road on which every model reaches the cache.

    marker there? -> plan -> names -> space -> partial folder -> download, hashed while written
    -> exactly the planned files? -> fsync -> rename -> refs -> marker

A run may be killed after any step. Before the rename nothing is visible; between the rename and
the marker the folder is not trusted, but proven again and then marked.
"""

import collections.abc
import contextlib
import dataclasses
import errno
import hashlib
import os
import pathlib
import time

from fetcher import (
    assembly,
    disk,
    download,
    errors,
    layout,
    markers,
    names,
    partials,
    plans,
    progress,
    proving,
    retry,
    sources,
    streams,
    unpack,
)

# Left free for the volume's own tables and for markers.
_RESERVE_BYTES = 1024 * 1024
_BLOCK = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How hard to try. `connections` is also the number of threads."""

    connections: int = 4
    idle_seconds: float = 60.0
    timing: partials.Timing = dataclasses.field(default_factory=partials.Timing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did. `fetched` counts bytes that came over the network."""

    marker: markers.Marker
    path: pathlib.Path
    fetched: int
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    root: pathlib.Path
    request: markers.Request
    source: sources.Source
    tries: retry.Tries
    abort: collections.abc.Callable[[], None]
    bar: progress.Progress
    options: Options


def already(root: pathlib.Path, request: markers.Request) -> markers.Marker | None:
    """The marker of a request whose files are all there; asks nobody and writes nothing."""
    marker = markers.read(markers.path_of(root, request))
    if marker is None or marker.source != str(request.source):
        return None
    where = layout.folder_of(request.source, marker.resolved)
    refs_right = all(markers.ref_is(root / ref, marker.resolved) for ref in where.refs)
    if marker.folder != str(where.folder) or not refs_right:
        return None
    return None if markers.differences(root, marker) else marker


def stage(
    root: pathlib.Path,
    request: markers.Request,
    source: sources.Source,
    *,
    tries: retry.Tries,
    abort: collections.abc.Callable[[], None],
    bar: progress.Progress,
    options: Options,
) -> Outcome:
    """Stage a model, or find that it is staged. `abort` must cut the source's connections."""
    started = time.monotonic()
    if (marker := already(root, request)) is not None:
        return _outcome(root, marker, 0, started)
    run = _Run(
        root=root,
        request=request,
        source=source,
        tries=tries,
        abort=abort,
        bar=bar,
        options=options,
    )
    plan = tries.call(source.plan)
    names.check_all(file.path for file in plan.files)
    where = layout.folder_of(request.source, plan.resolved)
    plan = plans.select(plan, request.patterns, also=_promised_before(run, where, plan))
    marker, fetched = _bring(run, plan, where)
    return _outcome(root, marker, fetched, started)


def _outcome(root: pathlib.Path, marker: markers.Marker, fetched: int, started: float) -> Outcome:
    seconds = time.monotonic() - started
    return Outcome(marker=marker, path=root / marker.folder, fetched=fetched, seconds=seconds)


def _promised_before(run: _Run, where: layout.Place, plan: plans.Plan) -> set[str]:
    """Files that other requests staged in the same folder: it must go on to hold them."""
    return {
        file.path
        for _, marker in markers.read_all(run.root)
        if marker.folder == str(where.folder) and marker.resolved == plan.resolved
        for file in marker.files
    }


def _bring(run: _Run, plan: plans.Plan, where: layout.Place) -> tuple[markers.Marker, int]:
    if (files := _staged_by_another(run, plan, where)) is not None:
        return _mark(run, plan, where, files), 0

    told: set[str] = set()

    def finished(holder: str) -> bool:
        if holder not in told:
            told.add(holder)
            run.bar.say(f"waiting for the run on {holder}, which stages the same model")
        if run.tries.stop.wait(run.options.timing.look):
            raise errors.Interrupted("asked to stop while waiting for another run")
        return _staged_by_another(run, plan, where) is not None

    with disk.named(run.root):
        partials.collect(run.root, run.options.timing, stop=run.tries.stop)
        key = hashlib.sha256(str(where.folder).encode()).hexdigest()[:16]
        partial = partials.hold(run.root, key, run.options.timing, waiting=finished)
    if partial is None:
        return _bring(run, plan, where)
    try:
        found = _into(run, plan, where, partial)
    except partials.Lost:
        raise errors.Unavailable(
            "another run took this one's partial folder over, since the volume had not heard from "
            "it: retry, which will wait for the other"
        ) from None
    finally:
        partial.release()
    return found


def _staged_by_another(
    run: _Run, plan: plans.Plan, where: layout.Place
) -> list[markers.StagedFile] | None:
    """The planned files, if another request has staged them in the same place already."""
    wanted = {file.path: str(file.proof) for file in plan.files if file.packing is None}
    packed = _packed(plan)
    for _, marker in markers.read_all(run.root):
        if marker.folder != str(where.folder) or marker.resolved != plan.resolved:
            continue
        stated = {file.path: str(file.proof) for file in marker.files}
        same = (
            marker.patterns == run.request.patterns if packed else wanted.items() <= stated.items()
        )
        if same and not markers.differences(run.root, marker):
            return list(marker.files)
    return None


def _into(
    run: _Run, plan: plans.Plan, where: layout.Place, partial: partials.Partial
) -> tuple[markers.Marker, int]:
    """Fill a partial folder that this run owns, and promote it."""
    final = run.root / where.folder
    spoiled = False
    if (files := _staged_by_another(run, plan, where)) is None and os.path.lexists(final):
        files = _unmarked(run, plan, final)
        spoiled = files is None
    if files is not None:
        marker = _mark(run, plan, where, files)
        partial.remove()
        return marker, 0
    with disk.named(run.root):
        kept = _keep_usable(plan, partial.files)
        _check_space(run, plan, kept)
    files = _fetch(run, plan, partial)
    with disk.named(run.root):
        _check_exactly(partial.files, files)
        disk.sync_tree(partial.files)
    if _packed(plan):
        markers.promise(run.root, run.request, _marker(run, plan, where, files))
    partial.may_write()
    with disk.named(run.root):
        promoted = _promote(run, plan, partial.files, where, spoiled=spoiled)
    if not promoted:
        partial.remove()
        return _bring(run, plan, where)
    # The partial folder goes last: while it is there, others that want the model wait.
    marker = _mark(run, plan, where, files)
    partial.remove()
    return marker, plan.total - kept


def _unmarked(run: _Run, plan: plans.Plan, final: pathlib.Path) -> list[markers.StagedFile] | None:
    """A folder without a marker that fits: one from a run that was killed just before the marker,
    or one that somebody spoiled. Only its bytes can tell."""
    run.bar.say(f"{final} is there without a valid marker: reading it to see whether it is whole")
    with disk.named(final):
        found = _as_promised(run, plan, final) if _packed(plan) else proving.prove_plan(final, plan)
    if found is None:
        run.bar.say(f"{final} is not what it should be: staging a new copy beside it")
    return found


def _as_promised(
    run: _Run, plan: plans.Plan, final: pathlib.Path
) -> list[markers.StagedFile] | None:
    """Unpacked files that an earlier run named just before it was killed, if they are so."""
    promise = markers.promised(run.root, run.request)
    if promise is None or promise.resolved != plan.resolved or run.root / promise.folder != final:
        return None
    return None if proving.prove_marker(run.root, promise) else list(promise.files)


def _packed(plan: plans.Plan) -> bool:
    return any(file.packing is not None for file in plan.files)


def _keep_usable(plan: plans.Plan, folder: pathlib.Path) -> int:
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


def _check_space(run: _Run, plan: plans.Plan, kept: int) -> None:
    needs = sum(-(-file.size // _BLOCK) * _BLOCK for file in plan.files) - kept + _RESERVE_BYTES
    has = disk.free_bytes(run.root)
    if needs > has:
        raise errors.NoSpace(
            f"{run.request.source} needs {progress.size(needs)} more, the volume has "
            f"{progress.size(has)} free: ask for a larger volume or remove what is not needed"
        )


def _fetch(run: _Run, plan: plans.Plan, partial: partials.Partial) -> list[markers.StagedFile]:
    run.bar.expect(plan.total)
    plain = [file for file in plan.files if file.packing is None]
    with disk.named(run.root):
        for folder in sorted({pathlib.PurePosixPath(file.path).parent for file in plain}):
            disk.make_folders(partial.files, folder)
    reader = streams.Reader(run.source, run.tries, idle_seconds=run.options.idle_seconds)
    downloads = download.Downloads(
        reader,
        partial.files,
        advance=run.bar.advance,
        may_write=partial.may_write,
        abort=run.abort,
    )
    downloads.run(plain, run.options.connections)
    files = [markers.StagedFile(path=f.path, size=f.size, proof=f.proof) for f in plain]
    return files + _unpack_all(run, plan, reader, partial)


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
    run: _Run, plan: plans.Plan, reader: streams.Reader, partial: partials.Partial
) -> list[markers.StagedFile]:
    target = _Target(partial, (file.path for file in plan.files if file.packing is None))
    block = memoryview(bytearray(assembly.BLOCK_BYTES))
    found: list[markers.StagedFile] = []
    for file in plan.files:
        if file.packing is None:
            continue
        views = _counted(_any_stretch(reader, file, block), run.bar)
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
    reader: streams.Reader, file: plans.RemoteFile, block: memoryview
) -> collections.abc.Iterator[memoryview]:
    """A whole file in order, also of a server that knows no ranges."""
    read = 0
    try:
        for view in reader.stretch(file, 0, file.size, block):
            read += len(view)
            yield view
    except streams.NoRanges:
        yield from reader.whole(file, read, block)


def _counted(
    views: collections.abc.Iterator[memoryview], bar: progress.Progress
) -> collections.abc.Iterator[memoryview]:
    for view in views:
        bar.advance(len(view))
        yield view


def _check_exactly(folder: pathlib.Path, files: list[markers.StagedFile]) -> None:
    """The folder holds the files of the plan, as plain files, and nothing else."""
    found = disk.files_below(folder)
    wanted = {file.path: file.size for file in files}
    if {name: entry.st_size for name, entry in found.items()} != wanted or not all(
        disk.is_plain(entry) for entry in found.values()
    ):
        raise errors.Mismatch(
            f"{folder} holds other files than were written: something else writes to this volume"
        )


def _promote(
    run: _Run, plan: plans.Plan, folder: pathlib.Path, where: layout.Place, *, spoiled: bool
) -> bool:
    """Give the folder its final name; False where another run has put something there meanwhile.

    What was there before and is not whole (`spoiled`) is moved aside and not touched.
    """
    parent = disk.make_folders(run.root, where.folder.parent)
    final = run.root / where.folder
    if spoiled and _staged_by_another(run, plan, where) is None and os.path.lexists(final):
        aside = parent / f"{markers.FOLDER}-replaced-{os.urandom(6).hex()}"
        final.rename(aside)
        run.bar.say(
            f"{final} was not whole: it lies now in {aside}; remove it when nothing uses it"
        )
    try:
        folder.rename(final)
    except OSError as e:
        if e.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    disk.sync_folder(folder.parent)
    disk.sync_folder(parent)
    return True


def _mark(
    run: _Run, plan: plans.Plan, where: layout.Place, files: list[markers.StagedFile]
) -> markers.Marker:
    marker = _marker(run, plan, where, files)
    markers.write_refs(run.root, where, plan.resolved)
    markers.write(run.root, run.request, marker)
    return marker


def _marker(
    run: _Run, plan: plans.Plan, where: layout.Place, files: list[markers.StagedFile]
) -> markers.Marker:
    return markers.Marker(
        source=str(run.request.source),
        resolved=plan.resolved,
        folder=str(where.folder),
        patterns=run.request.patterns,
        files=tuple(files),
    )
