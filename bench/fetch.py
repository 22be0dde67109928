"""Compares the fetcher with curl, oras-py and snapshot_download, in the same run.

    python -m bench.fetch [--rounds 7] [--mib 2048] [--files 4] [--dir DIR]

Each round runs every contender once, in turn, against the same local servers: Debian's
docker-registry, and the tests' fake hub. What counts are the medians of the per-round ratios,
since a shared machine's absolute speeds say little. Every contender ends with the model's files
durable on DIR's filesystem.
"""

import argparse
import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

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
_MOST_RESIDENT_MIB = 150
# A small process of its own between the servers' memory and what is measured: a child's peak
# counts what its parent held when it was forked. The child is left unreaped until its counters
# are read.
_WATCH = """
import json, os, subprocess, sys, time
started = time.monotonic()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    "written": int(io["wchar"]),
}))
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run took: wall and processor seconds, peak resident and written bytes."""

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
    arguments = _parser().parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="fetch-", dir=arguments.dir))
        )
        files = _model(arguments.mib, arguments.files)
        (folder / "registry").mkdir()
        registry = stack.enter_context(registries.running(folder / "registry"))
        uri = registry.push_files("m", files)
        hub = stack.enter_context(localhub.LocalHub())
        hub.repos["org/m"] = localhub.Repo(files=files)
        costs = _race(_contenders(registry, hub, uri, folder), folder, arguments.rounds)
        _print_table(costs, sum(map(len, files.values())))
        _print_second_run(registry, uri, folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Race the fetcher against its peers.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=2048, help="size of the model")
    parser.add_argument("--files", type=int, default=4, help="in how many files")
    parser.add_argument("--dir", help="where to write; its filesystem is part of the result")
    return parser


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


def _print_table(costs: dict[str, list[Cost]], size: int) -> None:
    mib = 1024 * 1024
    print(f"{'':26} {'s':>6} {'MiB/s':>6} {'cpu s':>6} {'RSS MiB':>8} {'written/model':>14}")
    for name, runs in costs.items():
        seconds = statistics.median(run.seconds for run in runs)
        processor = statistics.median(run.processor for run in runs)
        resident = max(run.resident for run in runs) / mib
        written = statistics.median(run.written for run in runs) / size
        speed = size / mib / seconds
        speeds = f"{seconds:6.2f} {speed:6.0f} {processor:6.2f}"
        print(f"{name:26} {speeds} {resident:8.0f} {written:14.3f}")
    print()
    for ours, theirs, wanted in _WANTED:
        pairs = zip(costs[theirs], costs[ours], strict=True)
        ratio = statistics.median(peer.seconds / own.seconds for peer, own in pairs)
        verdict = "holds" if ratio >= wanted else "MISSED"
        print(f"{ours} is {ratio:.2f}x {theirs}; wanted at least {wanted}x: {verdict}")
    for ours in ("stage oci://", "stage hf://"):
        resident = max(run.resident for run in costs[ours]) / mib
        written = max(run.written for run in costs[ours]) / size
        verdict = "holds" if resident <= _MOST_RESIDENT_MIB and written < 1.01 else "MISSED"
        print(
            f"{ours} held {resident:.0f} MiB and wrote {written:.3f}x the model; "
            f"wanted at most {_MOST_RESIDENT_MIB} MiB and 1x: {verdict}"
        )


def _print_second_run(registry: registries.Registry, uri: str, folder: pathlib.Path) -> None:
    """With the marker there, a run makes no request (https is refused here) and writes nothing."""
    target = folder / "target"
    target.mkdir()
    stage = [sys.executable, "-m", "fetcher", "stage", uri, f"--cache={target}"]
    _measure([*stage, "--plain-http"], rig.environment())
    cost = _measure(stage, rig.environment())
    print(f"a second run: {cost.seconds:.2f} s, {cost.written} bytes written (its summary)")


if __name__ == "__main__":
    sys.exit(main())
