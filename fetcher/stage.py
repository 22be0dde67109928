"""The one road on which every model reaches the cache.

    marker there? -> plan -> names -> space -> partial folder -> download, hashed while written
    -> exactly the planned files? -> fsync -> rename -> refs -> marker

A run may be killed after any step. Before the rename nothing is visible; between the rename and
the marker the folder is not trusted, but proven again and then marked.
"""

import collections.abc
import dataclasses
import errno
import hashlib
import os
import pathlib
import time

from fetcher import (
    disk,
    errors,
    filling,
    layout,
    markers,
    names,
    partials,
    plans,
    progress,
    proving,
    retry,
    sources,
)


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
    transfer: filling.Transfer
    timing: partials.Timing

    @property
    def bar(self) -> progress.Progress:
        return self.transfer.bar


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
    transfer = filling.Transfer(
        source=source,
        tries=tries,
        abort=abort,
        bar=bar,
        connections=options.connections,
        idle_seconds=options.idle_seconds,
    )
    run = _Run(root=root, request=request, transfer=transfer, timing=options.timing)
    plan = tries.call(source.plan)
    names.check_all(file.path for file in plan.files)
    where = layout.folder_of(request.source, plan.resolved)
    plan = plans.select(plan, request.patterns, also=_promised_before(run, where, plan))
    for warning in plan.warnings:
        bar.say(f"warning: {warning}")
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
        if run.transfer.tries.stop.wait(run.timing.look):
            raise errors.Interrupted("asked to stop while waiting for another run")
        return _staged_by_another(run, plan, where) is not None

    with disk.named(run.root):
        partials.collect(run.root, run.timing, stop=run.transfer.tries.stop)
        key = hashlib.sha256(str(where.folder).encode()).hexdigest()[:16]
        partial = partials.hold(run.root, key, run.timing, waiting=finished)
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
    replaces = ""
    if (files := _staged_by_another(run, plan, where)) is None and os.path.lexists(final):
        files, replaces = _unmarked(run, plan, final)
    if files is not None:
        marker = _mark(run, plan, where, files)
        partial.remove()
        return marker, 0
    with disk.named(run.root):
        kept = filling.keep_usable(plan, partial.files)
        filling.check_space(run.root, str(run.request.source), plan, kept)
    files = filling.fetch(run.transfer, plan, partial)
    with disk.named(run.root):
        filling.check_exactly(partial.files, files)
        disk.sync_tree(partial.files)
    if _packed(plan):
        markers.promise(run.root, run.request, _marker(run, plan, where, files))
    partial.may_write()
    with disk.named(run.root):
        promoted = _promote(run, plan, partial.files, where, replaces=replaces)
    if not promoted:
        partial.remove()
        return _bring(run, plan, where)
    # The partial folder goes last: while it is there, others that want the model wait.
    marker = _mark(run, plan, where, files)
    partial.remove()
    return marker, plan.total - kept


def _unmarked(
    run: _Run, plan: plans.Plan, final: pathlib.Path
) -> tuple[list[markers.StagedFile] | None, str]:
    """A folder without a marker that fits: one from a run that was killed just before the marker,
    one that holds another selection, or one that somebody spoiled. Only its bytes can tell.

    Returns the planned files, or else in words why the folder is to be replaced.
    """
    selected = _is_another_selection(run, final)
    if not selected:
        run.bar.say(
            f"{final} is there without a valid marker: reading it to see whether it is whole"
        )
    with disk.named(final):
        found = _as_promised(run, plan, final) if _packed(plan) else proving.prove_plan(final, plan)
    if found is not None:
        return found, ""
    if selected:
        run.bar.say(f"{final} holds another selection of its files: staging a copy with both")
        return None, "held another selection"
    run.bar.say(f"{final} is not what it should be: staging a new copy beside it")
    return None, "was not whole"


def _is_another_selection(run: _Run, final: pathlib.Path) -> bool:
    """Whether a valid marker says that the folder was staged for a request with other patterns."""
    return any(
        run.root / marker.folder == final
        and marker.patterns != run.request.patterns
        and not markers.differences(run.root, marker)
        for _, marker in markers.read_all(run.root)
    )


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


def _promote(
    run: _Run, plan: plans.Plan, folder: pathlib.Path, where: layout.Place, *, replaces: str
) -> bool:
    """Give the folder its final name; False where another run has put something there meanwhile.

    What was there before is moved aside and not touched where `replaces` says in words why.
    """
    parent = disk.make_folders(run.root, where.folder.parent)
    final = run.root / where.folder
    if replaces and _staged_by_another(run, plan, where) is None and os.path.lexists(final):
        aside = parent / f"{markers.FOLDER}-replaced-{os.urandom(6).hex()}"
        final.rename(aside)
        run.bar.say(f"{final} {replaces}: it lies now in {aside}; remove it when nothing uses it")
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
