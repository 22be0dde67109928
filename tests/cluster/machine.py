"""Whether this machine and user can run the rig; each answer is one line that says what to do."""

import os
import pathlib
import shutil
import subprocess

from tests.cluster import errors

# Programs that the rig calls itself or that kubelet and containerd call; all come from Debian
# packages that ``install-packages`` lists.
PROGRAMS = (
    "buildah", "busybox", "conntrack", "debootstrap", "ip", "iptables", "mount", "nft",
    "nsenter", "openssl", "runc", "unshare",
)  # fmt: skip
CNI_PLUGINS = pathlib.Path("/usr/lib/cni")

INSTALLER = "tests/cluster/install-packages"

# Where Debian keeps what an ordinary user's PATH leaves out.
SEARCH_PATH = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin"]
)


def require() -> None:
    """Raise MachineUnfit with the first thing that is missing."""
    if os.name != "posix" or not pathlib.Path("/proc/self/ns/pid").exists():
        raise errors.MachineUnfit("the cluster rig needs Linux with PID namespaces")
    if os.geteuid() != 0:
        raise errors.MachineUnfit(
            "the cluster rig makes namespaces and mounts: run it as root (for example with sudo)"
        )
    if missing := [program for program in PROGRAMS if find(program) is None]:
        raise errors.MachineUnfit(
            f"missing {', '.join(missing)}: run {INSTALLER} (Debian), or install them yourself"
        )
    if not (CNI_PLUGINS / "bridge").exists():
        raise errors.MachineUnfit(f"missing {CNI_PLUGINS}/bridge: run {INSTALLER} (Debian)")


def require_go() -> str:
    """The go command, for machines where the pinned tools are not built yet."""
    found = find("go")
    if found is None:
        raise errors.MachineUnfit(
            "missing go: install Go 1.26 or newer and put it on PATH (the cluster's tools are "
            "built from source)"
        )
    return found


def find(program: str) -> str | None:
    return shutil.which(program, path=SEARCH_PATH)


def call(*argv: str | pathlib.PurePath, stdin: str | None = None) -> str:
    """Run a command of this machine; its standard output, or a RigError with its last words."""
    done = subprocess.run(
        [str(word) for word in argv],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": SEARCH_PATH},
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise errors.RigError(f"{' '.join(str(word) for word in argv[:4])} ...: {words}")
    return done.stdout
