"""The cgroup under which kubelet puts all Pods of one rig.

Two kubelets with one cgroup root would each take the other's Pods for orphans and kill them.
"""

import contextlib
import os
import pathlib
import time

from tests.cluster import errors, layout

ROOT = pathlib.Path("/sys/fs/cgroup")


def create(instance: layout.Instance) -> None:
    for hierarchy in _hierarchies():
        group = hierarchy / instance.name
        with contextlib.suppress(FileExistsError):
            group.mkdir()
        # cgroup v1: a new cpuset is empty and takes no process until it is given both.
        for knob in ("cpuset.cpus", "cpuset.mems"):
            if (group / knob).exists() and (hierarchy / knob).exists():
                (group / knob).write_text((hierarchy / knob).read_text())


def delete(instance: layout.Instance, seconds: float = 10) -> None:
    """Remove the tree; its processes are dead or dying, and the kernel may take a moment."""
    deadline = time.monotonic() + seconds
    for hierarchy in _hierarchies():
        top = hierarchy / instance.name
        while top.exists():
            with contextlib.suppress(OSError):
                for folder, _, _ in os.walk(top, topdown=False):
                    os.rmdir(folder)
            if time.monotonic() > deadline:
                raise errors.RigError(f"the cgroup {top} is still in use: see its cgroup.procs")
            time.sleep(0.02)


def _hierarchies() -> list[pathlib.Path]:
    """One folder on cgroup v2; on v1 one for each controller."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [
        folder
        for folder in sorted(ROOT.iterdir())
        if (folder / "cgroup.procs").exists() and not folder.is_symlink()
    ]
