"""Root, another user and the fetcher on one cache, whichever of them comes first."""

import dataclasses
import os
import pathlib
import stat
import time
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import layout, machine, noctaya, node, oci
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.troubles import Trouble, Troubles
from tests.cluster.scenarios.volumes import Volumes
from tests.process.fetcher import localhub

USER = 1000
USER_IMAGE = f"rig.local/busybox-{USER}:1"
UIDS = {"root": 0, "another": USER}
IMAGES = {"root": layout.BUSYBOX_IMAGE, "another": USER_IMAGE}
FETCHER = 65532

# An engine that reads staged weights, or brings its own where none are, and keeps things wherever
# it may. Nobody but its user may read what it makes itself.
ENGINE = """
set -e
umask 077
if [ -n "$HF_HUB_OFFLINE" ]; then
  cat "$HF_HOME"/hub/models--noctaya--small/snapshots/*/weights.bin > /dev/null
else
  mkdir -p "$HF_HOME/hub"
  echo own > "$HF_HOME/hub/weights.bin"
fi
for folder in "$VLLM_CACHE_ROOT" "$XDG_CACHE_HOME" "$HOME"; do
  mkdir -p "$folder/kept"
  echo kept > "$folder/kept/by-$(id -u)"
done
mkdir -p /tmp/www
echo well > /tmp/www/health
exec httpd -f -p 8000 -h /tmp/www
"""


@dataclasses.dataclass(frozen=True)
class Caches:
    """Makes services on caches, and looks into these from the node."""

    troubles: Troubles
    volumes: Volumes
    hub: localhub.LocalHub

    def begin(self, strategy: str, image: str, *, staged: bool) -> Trouble:
        name = f"cache-{strategy.lower()}"
        cache: Object = {"strategy": strategy, "prewarm": staged}
        if strategy == "NodeLocalPVC":
            storage_class = f"{name}-{os.urandom(2).hex()}"
            self.volumes.add(storage_class)
            cache |= {"size": "1Gi", "storageClassName": storage_class}
        env = builders.environment(self.hub.environ())
        container = {"image": image, "args": ["-c", ENGINE], "env": env}
        model = {"source": {"uri": "hf://noctaya/small"}}
        service = {"model": model, "cache": cache}
        return self.troubles.begin(name, runtime={"container": container}, service=service)

    def folder(self, service: Trouble) -> pathlib.Path:
        """The cache's folder, as the machine sees it."""
        endpoint = service.endpoint
        state = endpoint.cluster.instance.state
        cache = endpoint.service()["spec"]["cache"]
        if cache["strategy"] == "HostPath":
            root = pathlib.Path(noctaya.HOST_PATH_ROOT).relative_to(layout.STATE)
            return state / root / endpoint.namespace / endpoint.name
        (folder,) = (state / "volumes").glob(f"{cache['storageClassName']}-*")
        return folder


@pytest.fixture(scope="module")
def caches(
    installed: running.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Caches]:
    """With an image of another user, and a hub that takes long enough to be seen at it."""
    _load_image_of_user(installed, tmp_path_factory.mktemp("image") / "busybox.tar")
    with installed.inside():
        hub = localhub.LocalHub(layout.NODE_ADDRESS)
    hub.repos["noctaya/small"] = localhub.Repo(files={"weights.bin": os.urandom(2**20)})
    hub.fault = _slow
    troubles, volumes = Troubles(installed), Volumes(installed)
    with hub:
        yield Caches(troubles, volumes, hub)
        troubles.end()
        volumes.remove()


Services = dict[tuple[str, str], Trouble]


@pytest.fixture(scope="module", autouse=True)
def fetched_first(caches: Caches) -> Services:
    """On staged weights from the start."""
    return {
        (strategy, user): caches.begin(strategy, image, staged=True)
        for strategy in ("NodeLocalPVC", "HostPath")
        for user, image in IMAGES.items()
    }


# A folder of the node is root's own: nobody else's engine could fill it.
FIRST = [("NodeLocalPVC", "root"), ("NodeLocalPVC", "another"), ("HostPath", "root")]


@pytest.fixture(scope="module", autouse=True)
def engine_first(caches: Caches) -> Services:
    """With an engine that fills the cache itself."""
    return {
        (strategy, user): caches.begin(strategy, IMAGES[user], staged=False)
        for strategy, user in FIRST
    }


@pytest.mark.parametrize("user", ["root", "another"])
@pytest.mark.parametrize("strategy", ["NodeLocalPVC", "HostPath"])
def test_an_engine_of_any_user_reads_staged_weights_and_keeps_its_own(
    fetched_first: Services, caches: Caches, strategy: str, user: str
) -> None:
    service = fetched_first[strategy, user]
    service.endpoint.wait_ready()
    _assert_staged(caches.folder(service), strategy)
    kept = caches.folder(service) / "vllm" / "kept" / f"by-{UIDS[user]}"
    assert kept.stat().st_uid == UIDS[user]


@pytest.mark.parametrize(("strategy", "user"), FIRST)
def test_weights_are_staged_where_an_engine_of_any_user_was_before(
    engine_first: Services, caches: Caches, strategy: str, user: str
) -> None:
    service = engine_first[strategy, user]
    service.endpoint.wait_ready()
    own = caches.folder(service) / "huggingface" / "hub" / "weights.bin"
    assert own.stat().st_uid == UIDS[user]
    service.edit(cache={"prewarm": True})
    staged = "an engine runs on the staged weights"
    service.endpoint.cluster.wait(staged, lambda: _is_offline(service), 90)
    service.endpoint.wait_ready()
    _assert_staged(caches.folder(service), strategy)
    assert own.exists()
    if strategy == "HostPath":
        assert "StagingOnNode" in service.reasons()


def _is_offline(service: Trouble) -> bool:
    """Whether all of its Pods, and there is one, are of the template for staged weights."""
    pods = service.endpoint.pods()
    return bool(pods) and all(
        {"name": "HF_HUB_OFFLINE", "value": "1"} in pod["spec"]["containers"][0]["env"]
        for pod in pods
    )


def _assert_staged(cache: pathlib.Path, strategy: str) -> None:
    """The weights are whose they should be, and anybody may read them."""
    (weights,) = cache.glob("hub/models--noctaya--small/snapshots/*/weights.bin")
    assert weights.stat().st_uid == (0 if strategy == "HostPath" else FETCHER)
    for path in (weights, *list(weights.parents)[:4]):
        assert path.stat().st_mode & stat.S_IROTH, f"others may not read {path}"


def _load_image_of_user(cluster: running.Cluster, archive: pathlib.Path) -> None:
    """The toolbox of the other tests, for a user of the image's own."""
    oci.write(
        archive,
        files={"bin/busybox": pathlib.Path(machine.find("busybox") or "busybox")},
        links={f"bin/{name}": "busybox" for name in ("cat", "httpd", "id", "mkdir", "sh", "test")},
        folders=["bin", "tmp"],
        entrypoint=["/bin/sh"],
        user=str(USER),
    )
    node.load(cluster.instance, USER_IMAGE, archive)


def _slow(exchange: localhub.Exchange) -> bool:
    if exchange.kind == "cdn":
        time.sleep(2)
    return False
