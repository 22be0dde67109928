"""Volumes of the node, made ahead: the rig has no provisioner."""

import pathlib

from tests.cluster import cluster as running
from tests.cluster import layout
from tests.cluster.scenarios import builders


class Volumes:
    """Volumes of one class each, for services that are started on them.

    Each has the file ``authority.crt``, with an authority to trust.
    """

    def __init__(self, cluster: running.Cluster, authority: str = "") -> None:
        self._cluster = cluster
        self._authority = authority
        self.made: list[str] = []

    def add(
        self, storage_class: str, *, kilobytes: int = 0, access_mode: str = "ReadWriteOnce"
    ) -> pathlib.Path:
        """A volume, and its folder; one of so many kilobytes is a file system of its own."""
        name = f"{storage_class}-{len(self.made)}"
        self.made.append(name)
        folder = self._cluster.instance.state / "volumes" / name
        folder.mkdir(parents=True)
        (folder / "authority.crt").write_text(self._authority)
        inside = layout.STATE / "volumes" / name
        if kilobytes:
            full = inside.with_name(f"{name}-full")
            (folder.parent / full.name).mkdir()
            size = f"-osize={kilobytes}k"
            self._cluster.run("mount", "-t", "tmpfs", size, "rig", full)
            self._cluster.run("cp", inside / "authority.crt", full)
            inside = full
        self._cluster.apply(
            builders.volume(name, storage_class, str(inside), layout.NODE_NAME, access_mode)
        )
        return folder

    def remove(self) -> None:
        for name in self.made:
            self._cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
