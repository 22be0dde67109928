"""How fast a model reaches the disk, beside curl, oras-py and snapshot_download:
``python -m bench.fetch``.

Each round runs every contender once, in turn, against the same local servers: Debian's
docker-registry, and the tests' fake hub. What counts are the medians of the per-round ratios,
since a shared machine's absolute speeds say little. Every contender ends with the model's files
durable on the same filesystem; only the fetcher has compared their hashes by then.
"""

import argparse
import collections.abc
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench import report
from tests.process.fetcher import localhub, registries, rig

_ORAS = (
    "import oras.client as c, os, sys;"
    "paths = c.OrasClient(insecure=True).pull(sys.argv[1], outdir=sys.argv[2]);"
    "[os.fsync(os.open(path, os.O_RDONLY)) for path in paths]"
)
_SNAPSHOT = (
    "import huggingface_hub as h, os, shutil, sys;"
    "h.snapshot_download('org/m', local_dir=sys.argv[1]);"
    "shutil.copytree(sys.argv[1], sys.argv[2], ignore=shutil.ignore_patterns('.cache'));"
    "os.sync()"
)
# How many times as fast as its peer each way should be.
_WANTED = (
    ("stage oci://", "curl -Z + fsync", 0.85),
    ("stage oci://", "oras-py pull + fsync", 1.5),
    ("stage hf://", "snapshot_download + copy", 1.2),
)
_OWN = ("stage oci://", "stage hf://")
_MIB = 1024 * 1024
_MOST_RESIDENT_MIB = 150
# The marker, the ref, and the signs of life in the partial folder.
_MOST_BESIDE_KIB = 16
# A small process of its own between the servers' memory and what is measured: a child's peak
# counts what its parent held when it was forked. The child is left unreaped until its counters
# are read.
_WATCH = """
import json, os, subprocess, sys, time
started = time.monotonic()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
printed = len(child.stdout.read())
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
seconds = time.monotonic() - started
with open(f"/proc/{child.pid}/io") as counters:
    io = dict(line.split(": ") for line in counters)
_, status, used = os.wait4(child.pid, 0)
if status:
    sys.exit(f"{sys.argv[1:]} ended with {os.waitstatus_to_exitcode(status)}")
print(json.dumps({
    "seconds": seconds,
    "processor": used.ru_utime + used.ru_stime,
    "resident": used.ru_maxrss * 1024,
    "written": int(io["wchar"]) - printed,
}))
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run took: wall and processor seconds, peak resident bytes, and bytes written, of
    which words for people are no part."""

    seconds: float
    processor: float
    resident: int
    written: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contender:
    """A way to get the model into a folder."""

    name: str
    command: collections.abc.Callable[[pathlib.Path], list[str]]
    environ: dict[str, str]


def main() -> int:
    parser = report.flags("fetch", __doc__)
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--mib", type=int, default=2048, help="size of the model (%(default)s)")
    parser.add_argument("--files", type=int, default=4, help="in how many files (%(default)s)")
    parser.add_argument("--dir", help="where to write; its filesystem is part of the result")
    flags = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="fetch-", dir=flags.dir))
        )
        files = _model(flags.mib, flags.files)
        (folder / "registry").mkdir()
        registry = stack.enter_context(registries.running(folder / "registry"))
        uri = registry.push_files("m", files)
        hub = stack.enter_context(localhub.LocalHub())
        hub.repos["org/m"] = localhub.Repo(files=files)
        costs = _race(_contenders(registry, hub, uri, folder), folder, flags.rounds)
        again = _second_run(hub, folder)
    return report.publish(_section(costs, again, flags), write=flags.write)


def _model(mib: int, count: int) -> dict[str, bytes]:
    block = random.Random(1).randbytes(1024 * 1024)
    size = mib // count
    return {
        f"model-{n:05}-of-{count:05}.safetensors": b"%16d" % n + (block * size)[16:]
        for n in range(1, count + 1)
    }


def _contenders(
    registry: registries.Registry, hub: localhub.LocalHub, uri: str, folder: pathlib.Path
) -> list[Contender]:
    fetch = [sys.executable, "-m", "fetcher", "stage"]
    scratch = {"HOME": str(folder / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    reference = uri.removeprefix("oci://")

    def curl(target: pathlib.Path) -> list[str]:
        digests = [localhub.sha256(content) for content in hub.repos["org/m"].files.values()]
        outputs = [target / f"{n}" for n in range(len(digests))]
        base = f"http://{registry.host}/v2/m/blobs/sha256:"
        pairs = " ".join(
            f"-o {output} {base}{digest}" for output, digest in zip(outputs, digests, strict=True)
        )
        names = " ".join(map(str, outputs))
        script = f"curl -sfZ --parallel-immediate --parallel-max 4 {pairs} && sync {names}"
        return ["sh", "-c", script]

    return [
        Contender(name="curl -Z + fsync", command=curl, environ={}),
        Contender(
            name="stage oci://",
            command=lambda target: [*fetch, uri, f"--cache={target}", "--plain-http"],
            environ={},
        ),
        Contender(
            name="oras-py pull + fsync",
            command=lambda target: [sys.executable, "-c", _ORAS, reference, str(target)],
            environ=scratch,
        ),
        Contender(
            name="stage hf://",
            command=lambda target: [*fetch, "hf://org/m", f"--cache={target}"],
            environ=hub.environ(),
        ),
        Contender(
            name="snapshot_download + copy",
            command=lambda target: [
                sys.executable, "-c", _SNAPSHOT, str(target / "scratch"), str(target / "volume"),
            ],
            environ=hub.environ(**scratch, **quiet),
        ),
    ]  # fmt: skip


def _race(contenders: list[Contender], folder: pathlib.Path, rounds: int) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {contender.name: [] for contender in contenders}
    for count in range(rounds + 1):
        for contender in contenders:
            target = folder / "target"
            target.mkdir()
            os.sync()
            cost = _measure(contender.command(target), rig.environment(contender.environ))
            shutil.rmtree(target)
            # The first round warms caches and imports, for everybody.
            if count:
                costs[contender.name].append(cost)
        print(f"round {count} of {rounds}", file=sys.stderr)
    return costs


def _measure(command: list[str], environ: dict[str, str]) -> Cost:
    watched = [sys.executable, "-S", "-c", _WATCH, *command]
    found = subprocess.run(watched, env=environ, stdout=subprocess.PIPE, check=True, text=True)
    return Cost(**json.loads(found.stdout))


def _second_run(hub: localhub.LocalHub, folder: pathlib.Path) -> tuple[int, Cost]:
    """Requests and cost of a run that finds the marker."""
    target = folder / "target"
    target.mkdir()
    stage = [sys.executable, "-m", "fetcher", "stage", "hf://org/m", f"--cache={target}"]
    _measure(stage, rig.environment(hub.environ()))
    hub.seen.clear()
    cost = _measure(stage, rig.environment(hub.environ()))
    return len(hub.seen), cost


def _section(
    costs: dict[str, list[Cost]], again: tuple[int, Cost], flags: argparse.Namespace
) -> report.Section:
    size = flags.mib * _MIB
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PEERS)
    return report.Section(
        name="fetch",
        title="Staging a model",
        how=(
            f"{flags.rounds} rounds, interleaved, after one that warms caches: {flags.mib} MiB in "
            f"{flags.files} files from servers on the same machine onto its disk, to the end of "
            "fsync. `oci://`, curl and oras-py read from Debian's docker-registry, `hf://` and "
            "snapshot_download from a hub in Python. Only the fetcher compares hashes. CPU is the "
            f"tool's own, user and system; the servers share the cores. {versions}, "
            f"{_version_of_curl()}."
        ),
        table=[_HEAD, *(_row(name, runs, size) for name, runs in costs.items())],
        targets=[*_speeds(costs), *_frugality(costs, size), *_idleness(*again)],
    )


_PEERS = ("oras", "huggingface_hub", "urllib3")
_HEAD = ("", "s", "MiB/s", "CPU s", "MiB resident", "written, of the model")


def _version_of_curl() -> str:
    said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    return " ".join(said.stdout.split()[:2])


def _row(name: str, runs: list[Cost], size: int) -> tuple[str, ...]:
    seconds = statistics.median(run.seconds for run in runs)
    processor = statistics.median(run.processor for run in runs)
    resident = max(run.resident for run in runs) / _MIB
    written = statistics.median(run.written for run in runs) / size
    speed = size / _MIB / seconds
    return (
        name,
        f"{seconds:.2f}",
        f"{speed:.0f}",
        f"{processor:.2f}",
        f"{resident:.0f}",
        f"{written:.3f}x",
    )


def _speeds(costs: dict[str, list[Cost]]) -> collections.abc.Iterator[report.Target]:
    for ours, theirs, wanted in _WANTED:
        pairs = zip(costs[theirs], costs[ours], strict=True)
        ratio = statistics.median(peer.seconds / own.seconds for peer, own in pairs)
        yield report.Target(
            what=f"`{ours}`, speed of {theirs}", measured=ratio, at_least=wanted, unit="x"
        )


def _frugality(costs: dict[str, list[Cost]], size: int) -> collections.abc.Iterator[report.Target]:
    own = [run for name in _OWN for run in costs[name]]
    yield report.Target(
        what="peak resident",
        measured=max(run.resident for run in own) / _MIB,
        at_most=_MOST_RESIDENT_MIB,
        unit=" MiB",
    )
    yield report.Target(
        what="bytes written beside the model's",
        measured=(max(run.written for run in own) - size) / 1024,
        at_most=_MOST_BESIDE_KIB,
        unit=" KiB",
    )


def _idleness(requests: int, cost: Cost) -> collections.abc.Iterator[report.Target]:
    yield report.Target(what="requests of a second run", measured=requests, at_most=0)
    yield report.Target(what="bytes written by a second run", measured=cost.written, at_most=0)


if __name__ == "__main__":
    sys.exit(main())
