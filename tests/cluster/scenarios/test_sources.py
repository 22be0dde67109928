"""Every source on every cache strategy: applied, woken, broken, repaired, edited and deleted."""

import concurrent.futures
import dataclasses
import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import layout, noctaya, registry
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS, Endpoint
from tests.cluster.scenarios.troubles import Trouble, Troubles
from tests.cluster.scenarios.volumes import Volumes
from tests.process.fetcher import localhub

# Where a replica sees its weights; where it is to bring them itself, no echo engine does.
WEIGHTS = {
    "hf": "/cache/hub/models--noctaya--small/snapshots/*/weights.bin",
    "modelscope": "/cache/modelscope/noctaya--small/master/weights.bin",
    "oci": "/cache/oci/sha256-*/weights.bin",
    "pvc": "/models/weights.bin",
}
STRATEGIES = ("NodeLocalPVC", "SharedPVC", "HostPath", "None")
# An artifact that is staged nowhere is refused at admission.
PAIRS = [
    (source, strategy)
    for source in WEIGHTS
    for strategy in STRATEGIES
    if (source, strategy) != ("oci", "None")
]
AT_ONCE = 6

# What a deleted service may leave: it came with the namespace, or from the user.
NOT_OURS = {"serviceaccount/default", "secret/registry", "persistentvolumeclaim/weights"}
KINDS = (
    "llmservice,deployment,replicaset,pod,service,serviceaccount,rolebinding,job,secret,"
    "persistentvolumeclaim,poddisruptionbudget,scaledobject,horizontalpodautoscaler"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """What services of all kinds are made with."""

    troubles: Troubles
    volumes: Volumes
    served: registry.Served
    hub: localhub.LocalHub

    def begin(self, source: str, strategy: str) -> Trouble:
        """A service on volumes of its own; its replicas are ready where they see the weights."""
        name = f"{source}-{strategy.lower()}"
        storage_class = f"{name}-{os.urandom(2).hex()}"
        uris = {
            "hf": "hf://noctaya/small",
            "modelscope": "modelscope://noctaya/small",
            "oci": self.served.model,
            "pvc": "pvc://weights/small",
        }
        model: Object = {"source": {"uri": uris[source]}}
        cache: Object = {"strategy": strategy}
        beside: tuple[Object, ...] = ()
        if source == "oci":
            model["source"]["secretRef"] = {"name": "registry"}
            secret = builders.secret(
                "", "registry", {".dockerconfigjson": self.served.docker_config}
            )
            beside = ({**secret, "type": "kubernetes.io/dockerconfigjson"},)
        if source in ("hf", "modelscope") and strategy != "None":
            cache["prewarm"] = True
        if strategy.endswith("PVC"):
            mode = "ReadWriteMany" if strategy == "SharedPVC" else "ReadWriteOnce"
            self.volumes.add(storage_class, access_mode=mode)
            cache |= {"size": "1Gi", "storageClassName": storage_class}
        if source == "pvc":
            beside = (self._claim(f"{storage_class}-weights"),)
        service = {"model": model, "cache": cache}
        begun = self.troubles.begin(
            name,
            runtime=self._runtime(source, strategy),
            service=service,
            beside=beside,
            replicas=(0, 1),
        )
        if strategy == "HostPath":
            self._trust_on_node(begun.endpoint)
        return begun

    def _trust_on_node(self, endpoint: Endpoint) -> None:
        """Put the registry's authority where the download of the first replica looks for it."""
        state = endpoint.cluster.instance.state
        root = state / pathlib.Path(noctaya.HOST_PATH_ROOT).relative_to(layout.STATE)
        folder = root / endpoint.namespace / endpoint.name
        folder.mkdir(parents=True)
        (folder / "authority.crt").write_text(self.served.authority)

    def _claim(self, storage_class: str) -> Object:
        """A user's own claim, with weights on its volume."""
        folder = self.volumes.add(storage_class) / "small"
        folder.mkdir()
        (folder / "weights.bin").write_bytes(b"weights")
        return builders.claim("weights", storage_class)

    def _runtime(self, source: str, strategy: str) -> Object:
        """An echo engine that is ready where it sees its weights."""
        env = self.hub.environ()
        if source == "oci":
            env["SSL_CERT_FILE"] = "/cache/authority.crt"
        args = ["--model={{ .Model.Path }}", "--served-model-name=noctaya/echo"]
        spec: Object = {"container": {"args": args, "env": builders.environment(env)}}
        if source == "pvc" or strategy != "None":
            seen = {"command": ["sh", "-c", f"test -s {WEIGHTS[source]}"]}
            spec["health"] = {"readiness": {"httpGet": None, "exec": seen}}
        return spec


@pytest.fixture(scope="module")
def world(
    installed: running.Cluster, served: registry.Served, open_hub: localhub.LocalHub
) -> Iterator[World]:
    volumes, troubles = Volumes(installed, served.authority), Troubles(installed)
    yield World(troubles=troubles, volumes=volumes, served=served, hub=open_hub)
    troubles.end()
    volumes.remove()


Lives = dict[tuple[str, str], concurrent.futures.Future[None]]


@pytest.fixture(scope="module")
def lives(world: World) -> Iterator[Lives]:
    """Most of a life is waiting, so several are led at once."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {pair: pool.submit(_live, world, *pair) for pair in PAIRS}


@pytest.mark.parametrize("pair", PAIRS, ids=" on ".join)
def test_it_is_woken_broken_repaired_edited_and_leaves_nothing(
    lives: Lives, pair: tuple[str, str]
) -> None:
    lives[pair].result()


def _live(world: World, source: str, strategy: str) -> None:
    """All of a service's life."""
    service = world.begin(source, strategy)
    endpoint = service.endpoint
    endpoint.wait_armed()
    assert endpoint.replica_numbers() == [0]
    assert endpoint.ask("Out of its weights").finished

    since = endpoint.cluster.audit.mark()
    service.edit(scaling={"metric": "kvCacheUtil"})
    service.wait_unresolved("NotImplemented", "kvCacheUtil")
    assert endpoint.ask("As before").finished
    assert not endpoint.deletions(since)

    # Repaired, and another engine by the same edit.
    before = {pod["metadata"]["uid"] for pod in endpoint.pods()}
    change = {"argsOverride": ["--max-model-len=1024"]}
    service.edit(scaling={"metric": "queueDepth"}, runtime=change)

    def another() -> bool:
        # Has the model stay awake. One that meets the end of the old engine is cut off: this
        # runtime does not drain.
        endpoint.ask("Stay awake")
        pods = endpoint.pods()
        return bool(pods) and not before & {pod["metadata"]["uid"] for pod in pods}

    endpoint.cluster.wait("the engine is another", another, PATIENCE_SECONDS)
    assert endpoint.ask("As edited").finished
    _delete(endpoint)


def _delete(endpoint: Endpoint) -> None:
    """Delete the service and wait until its namespace is as it was before."""
    where = f"-n={endpoint.namespace}"
    endpoint.cluster.kubectl("delete", "llmservice", endpoint.name, where)

    def nothing_left() -> bool:
        listed = endpoint.cluster.kubectl("get", KINDS, "-o=name", where).split()
        left = {line for line in listed if line not in NOT_OURS}
        assert not left, left
        return True

    endpoint.cluster.wait(f"nothing of {endpoint.name} is left", nothing_left, PATIENCE_SECONDS)
