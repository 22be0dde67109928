"""The cluster's programs, built from the pinned Go modules under ``tools/``.

A built tool is kept in the cache under a hash of everything that goes in; Go's own build cache
makes a rebuild after a small change cheap. The first build on a bare machine takes about twelve
minutes on two cores.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.cluster import errors, layout, machine

MODULES = pathlib.Path(__file__).parent / "tools"

KUBERNETES = "v1.36.3"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tool:
    """One Go module of ``tools/`` and the programs that come out of it."""

    name: str
    programs: dict[str, str]  # program: package
    tags: str = ""
    ldflags: str = "-s -w"
    # A folder of a dependency's module to keep beside the programs: (module, folder).
    data: tuple[str, str] | None = None


# In the order of need: the first ones let a cluster start while the rest still builds.
TOOLS = (
    Tool(name="etcd", programs={"etcd": "go.etcd.io/etcd/server/v3"}),
    Tool(
        name="kubernetes",
        programs={
            program: f"k8s.io/kubernetes/cmd/{program}"
            for program in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
                "kube-proxy",
                "kubectl",
            )
        },
        # Without it the version reads v0.0.0, which clients refuse to compare.
        ldflags=f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}",
    ),
    Tool(
        name="containerd",
        programs={
            program: f"github.com/containerd/containerd/v2/cmd/{program}"
            for program in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
        # Snapshotters that need C libraries and are not used.
        tags="no_btrfs,no_devmapper,no_zfs",
    ),
    Tool(name="coredns", programs={"coredns": "github.com/coredns/coredns"}),
    Tool(
        name="keda",
        programs={
            "keda-operator": "github.com/kedacore/keda/v2/cmd/operator",
            "keda-adapter": "github.com/kedacore/keda/v2/cmd/adapter",
        },
        data=("github.com/kedacore/keda/v2", "config"),
    ),
)


def everything(say: Callable[[str], None]) -> None:
    """Build what the cache lacks, saying how long each program took."""
    with alone():
        for tool in TOOLS:
            if not folder(tool).exists():
                _build(tool, say)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Two checkouts share the cache; the second one waits and then finds everything there."""
    layout.cache().mkdir(parents=True, exist_ok=True)
    with open(layout.cache() / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def folder(tool: Tool) -> pathlib.Path:
    """Where the tool is once it is built."""
    inputs = hashlib.sha256(repr(tool).encode())
    for file in ("go.mod", "go.sum"):
        inputs.update((MODULES / tool.name / file).read_bytes())
    return layout.cache() / "tools" / f"{tool.name}-{inputs.hexdigest()[:12]}"


def program(name: str) -> pathlib.Path:
    for tool in TOOLS:
        if name in tool.programs:
            return folder(tool) / name
    raise KeyError(name)


def data(name: str) -> pathlib.Path:
    """The folder that the named tool kept from its module."""
    return folder(next(tool for tool in TOOLS if tool.name == name)) / "data"


def link_into(target: pathlib.Path) -> None:
    """Give a rig its programs in one folder, without copying them."""
    target.mkdir(parents=True)
    for tool in TOOLS:
        for name in tool.programs:
            os.link(folder(tool) / name, target / name)


def _build(tool: Tool, say: Callable[[str], None]) -> None:
    go = machine.require_go()
    final = folder(tool)
    staging = final.with_name(f".{final.name}.partial")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for name, package in tool.programs.items():
        begin = time.monotonic()
        flags = ["-trimpath", "-buildvcs=false", f"-tags={tool.tags}", f"-ldflags={tool.ldflags}"]
        _go(go, tool, "build", *flags, "-o", str(staging / name), package)
        say(f"built {name} in {time.monotonic() - begin:.0f} s")
    if tool.data is not None:
        module, path = tool.data
        found = _go(go, tool, "list", "-m", "-f", "{{.Dir}}", module).strip()
        shutil.copytree(pathlib.Path(found) / path, staging / "data")
    staging.rename(final)


def _go(go: str, tool: Tool, *arguments: str) -> str:
    done = subprocess.run(
        # The tests' own processes go first on a small machine.
        ["nice", go, *arguments],
        cwd=MODULES / tool.name,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise errors.RigError(f"go {arguments[0]} in tests/cluster/tools/{tool.name}: {last}")
    return done.stdout
