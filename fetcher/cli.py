"""The command: `noctaya-fetch stage | verify | plan`. Arguments in, one exit code out.

Progress and errors go to stderr, results to stdout; the last line of `stage` is a JSON summary.
Exit codes are those of `errors`, which the Job's podFailurePolicy reads.
"""

import argparse
import collections.abc
import json
import os
import pathlib
import signal
import sys
import threading
import types
import typing

from fetcher import (
    disk,
    errors,
    filling,
    layout,
    markers,
    names,
    plans,
    progress,
    proving,
    retry,
    sources,
    stage,
    transport,
    uris,
)

_ASKED_TO_STOP = "asked to stop; what is verified is kept for the next run"


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    run: collections.abc.Callable[[argparse.Namespace], int] = arguments.run
    termination_log = getattr(arguments, "termination_log", None)
    try:
        return run(arguments)
    except errors.FetchError as e:
        _report(e, termination_log)
        return e.exit_code
    except KeyboardInterrupt:
        _report(errors.Interrupted(_ASKED_TO_STOP), termination_log)
        return 130  # 128 + SIGINT, as shells report it.


def _report(error: errors.FetchError, termination_log: str | None) -> None:
    """The line goes to the log, and to where the kubelet reads a container's last words."""
    print(error.line(), file=sys.stderr, flush=True)
    if termination_log is not None:
        try:
            pathlib.Path(termination_log).write_text(error.line(), "utf-8")
        except OSError as e:
            print(f"--termination-log {termination_log}: {e.strerror}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="noctaya-fetch", description="Stage a model on a volume.")
    commands = parser.add_subparsers(required=True)

    staging = commands.add_parser("stage", help="fetch a model into a cache, whole or not at all")
    _add_source(staging)
    staging.add_argument("--cache", required=True, metavar="DIR", help="the volume to stage on")
    staging.add_argument("--termination-log", metavar="FILE", help="where the error line goes too")
    staging.add_argument(
        "--open-folder",
        type=_folder_name,
        action="append",
        default=[],
        metavar="NAME",
        help="then make this folder in the cache, for any user to write to",
    )
    staging.set_defaults(run=_stage)

    planning = commands.add_parser("plan", help="say what stage would fetch, and fetch nothing")
    _add_source(planning)
    planning.add_argument("--cache", default=".", metavar="DIR", help="the volume to look at (.)")
    planning.set_defaults(run=_plan)

    verifying = commands.add_parser("verify", help="read a staged model again and compare hashes")
    verifying.add_argument("path", metavar="PATH", help="a model's folder, or a whole cache")
    verifying.set_defaults(run=_verify)
    return parser


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "uri",
        metavar="URI",
        help="hf://ORG/NAME[@REVISION], modelscope://ORG/NAME[@REVISION] or "
        "oci://REGISTRY/REPOSITORY@sha256:DIGEST",
    )
    parser.add_argument("--revision", help="branch, tag or commit, if the URI names none")
    for name, what in (("include", "fetch only files"), ("exclude", "leave out files")):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN", help=f"{what} like this"
        )
    parser.add_argument("--registry-auth", metavar="FILE", help="a docker config with auths")
    parser.add_argument("--plain-http", action="store_true", help="the registry has no TLS")
    parser.add_argument("--connections", type=_at_least_one, default=4, metavar="N")
    parser.add_argument("--tries", type=_at_least_one, default=6, metavar="N")
    parser.add_argument("--idle-timeout-seconds", type=_positive, default=60.0, metavar="SECONDS")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of at least 1")
    return int(text)


def _folder_name(text: str) -> str:
    if text in ("", ".", "..") or "/" in text:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the name of one folder")
    return text


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0 and below 86400")
    return value


class _Setup(typing.NamedTuple):
    request: markers.Request
    source: sources.Source
    client: transport.Client
    tries: retry.Tries


def _set_up(arguments: argparse.Namespace) -> _Setup:
    uri = uris.parse(arguments.uri, revision=arguments.revision)
    patterns = plans.Patterns(include=tuple(arguments.include), exclude=tuple(arguments.exclude))
    client = transport.Client(idle_seconds=arguments.idle_timeout_seconds, environ=os.environ)
    access = sources.Access(
        client=client,
        environ=os.environ,
        registry_auth=arguments.registry_auth,
        plain_http=arguments.plain_http,
    )
    return _Setup(
        request=markers.Request(source=uri, patterns=patterns),
        source=sources.source_of(uri, access),
        client=client,
        tries=retry.Tries(threading.Event(), allowed=arguments.tries),
    )


def _stage(arguments: argparse.Namespace) -> int:
    _stop_on_sigterm()
    root = disk.root_of(arguments.cache)
    setup = _set_up(arguments)
    options = stage.Options(
        connections=arguments.connections, idle_seconds=arguments.idle_timeout_seconds
    )
    with progress.Progress(sys.stderr) as bar:
        outcome = stage.stage(
            root,
            setup.request,
            setup.source,
            tries=setup.tries,
            abort=setup.client.abort,
            bar=bar,
            options=options,
        )
    for name in arguments.open_folder:
        disk.open_folder(root, name)
    print(json.dumps(_summary(outcome)), flush=True)
    return 0


def _summary(outcome: stage.Outcome) -> dict[str, object]:
    return {
        "source": outcome.marker.source,
        "resolved": outcome.marker.resolved,
        "path": str(outcome.path),
        "files": len(outcome.marker.files),
        "bytes": outcome.marker.total,
        "fetched": outcome.fetched,
        "seconds": round(outcome.seconds, 3),
    }


def _plan(arguments: argparse.Namespace) -> int:
    root = disk.root_of(arguments.cache)
    setup = _set_up(arguments)
    plan = setup.tries.call(setup.source.plan)
    names.check_all(file.path for file in plan.files)
    plan = plans.select(plan, setup.request.patterns)
    for file in sorted(plan.files, key=lambda file: file.path):
        packed = "  (packed directory)" if file.packing is not None else ""
        print(f"{file.size:>15}  {file.proof}  {file.path}{packed}")
    if plan.left_out:
        left_out = sum(file.size for file in plan.left_out)
        print(f"left out: {len(plan.left_out)} files, {progress.size(left_out)}")
    where = layout.folder_of(setup.request.source, plan.resolved)
    is_staged = stage.already(root, setup.request) is not None
    print(f"resolved: {plan.resolved}")
    print(f"total: {len(plan.files)} files, {plan.total} bytes ({progress.size(plan.total)})")
    print(f"free: {progress.size(disk.free_bytes(root))} in {root}")
    if not is_staged and (
        said := filling.shortage(root, str(setup.request.source), plan, filling.left_over(root))
    ):
        print(f"does not fit: {said}")
    print(f"goes to: {where.folder} ({'staged' if is_staged else 'not staged'})")
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    path = pathlib.Path(os.path.realpath(arguments.path))
    if not path.is_dir():
        raise errors.NotFound(f"{arguments.path}: there is no such folder")
    root = _cache_of(path)
    checked, wrong = 0, 0
    for marker_path, marker in markers.read_all(root):
        folder = root / marker.folder
        if path not in (root, folder):
            continue
        checked += 1
        said = proving.prove_marker(root, marker)
        wrong += bool(said)
        for line in said:
            print(line)
        state = f"{len(said)} differences" if said else "as staged"
        print(f"{folder}: {marker.source}, {len(marker.files)} files, {state} ({marker_path})")
    if not checked:
        raise errors.NotFound(f"{path} is not a staged model: no marker in {root / markers.FOLDER}")
    if wrong:
        raise errors.Mismatch(
            f"{path} is not what was staged: remove the markers named above and stage again, which "
            "makes a new copy beside this one"
        )
    return 0


def _cache_of(path: pathlib.Path) -> pathlib.Path:
    for folder in (path, *path.parents):
        if (folder / markers.FOLDER).is_dir():
            return folder
    raise errors.NotFound(f"{path} is not in a cache: no folder above it holds {markers.FOLDER}")


def _stop_on_sigterm() -> None:
    """Let a stopped Pod leave its partial folder in order; a second signal is not needed."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise errors.Interrupted(_ASKED_TO_STOP)

    signal.signal(signal.SIGTERM, stop)
