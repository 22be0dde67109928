"""What the project's images hold, and under which user they run."""

import json
import pathlib
import tarfile

import pytest

from tests.cluster import cluster as running
from tests.cluster import images, layout

FETCHER = f"docker.io/noctaya/fetcher:{layout.VERSION}"
# 65532 and nothing else: a Pod that demands runAsNonRoot starts only what says so itself.
SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
# Prints who it is, then tries to write where no volume is, and ends as the fetcher does.
PROBE = """
import os, sys
print(os.getuid())
for path in ("/written", "/tmp/written", "/opt/noctaya/app/written"):
    try:
        open(path, "w")
    except OSError as e:
        print(e.strerror)
from fetcher import cli
sys.exit(cli.main(["verify", "/"]))
"""


@pytest.fixture(scope="module")
def archive(cluster: running.Cluster) -> pathlib.Path:
    return images.own(lambda _: None)[FETCHER]


def test_the_fetchers_image_adds_less_than_200_mb_to_its_base(archive: pathlib.Path) -> None:
    assert 0 < added(archive) < 200_000_000


def test_the_fetcher_runs_as_its_own_user_on_a_root_that_nobody_can_write_to(
    cluster: running.Cluster,
) -> None:
    container = {
        "name": "fetcher",
        "image": FETCHER,
        "imagePullPolicy": "Never",
        "command": ["/opt/noctaya/bin/python", "-c", PROBE],
        "securityContext": SECURITY,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "fetcher"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    with cluster.namespace("rig-images") as namespace:
        cluster.apply({**pod, "metadata": {"name": "fetcher", "namespace": namespace}})
        code = cluster.wait("the container ended", lambda: ended(cluster, namespace))
        said = cluster.kubectl("logs", f"-n={namespace}", "fetcher").splitlines()
    assert said[:4] == ["65532", *["Read-only file system"] * 3]
    assert (code, said[4].split(":")[0]) == ([11], "not found")


def ended(cluster: running.Cluster, namespace: str) -> list[int]:
    """The exit code, in a list that is empty before."""
    pod = cluster.get("pod", "fetcher", namespace) or {}
    statuses = pod.get("status", {}).get("containerStatuses", [])
    states = [status["state"].get("terminated") for status in statuses]
    return [state["exitCode"] for state in states if state]


def added(archive: pathlib.Path) -> int:
    """Bytes of the files beyond the base's, which is one layer here: see images.py."""
    size = 0
    with tarfile.open(archive) as outer:
        index = load(outer, "index.json")
        manifest = load(outer, blob(index["manifests"][0]["digest"]))
        assert len(manifest["layers"]) > 1
        for layer in manifest["layers"][1:]:
            with tarfile.open(fileobj=outer.extractfile(blob(layer["digest"]))) as tar:
                size += sum(entry.size for entry in tar)
    return size


def load(tar: tarfile.TarFile, name: str) -> running.Object:
    file = tar.extractfile(name)
    assert file is not None, name
    found: running.Object = json.load(file)
    return found


def blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
