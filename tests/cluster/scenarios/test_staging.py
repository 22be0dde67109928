"""Weights come from a registry while no accelerator is held, and the engine wakes from them."""

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import layout, noctaya, registry
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint
from tests.cluster.scenarios.volumes import Volumes
from tests.process.fetcher import localhub

DEVICE = "rig.noctaya.io/accelerator"
TOKEN = "rig-token"
MODEL_BYTES = 2**20

Stage = Callable[..., Endpoint]


@pytest.fixture(scope="module")
def hub(installed: running.Cluster) -> Iterator[localhub.LocalHub]:
    """A fake hub, beside the node, with one model that wants a token."""
    with installed.inside():
        made = localhub.LocalHub(layout.NODE_ADDRESS)
    made.repos["noctaya/small"] = localhub.Repo(
        files={"config.json": b"{}", "weights.bin": os.urandom(MODEL_BYTES)}, token=TOKEN
    )
    with made:
        yield made


@pytest.fixture(scope="module")
def volumes(installed: running.Cluster, served: registry.Served) -> Iterator[Volumes]:
    made = Volumes(installed, served.authority)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def stage(installed: running.Cluster, volumes: Volumes, start: Start) -> Stage:
    """Start services with a volume of their own. The node has one device."""
    # The fetcher's image has no way to a private authority but its volume.
    trust = {"name": "SSL_CERT_FILE", "value": "/cache/authority.crt"}
    weights = "/cache/oci/sha256-*/weights.bin"
    installed.apply(builders.staged_runtime("staged", device=DEVICE, weights=weights, env=[trust]))
    installed.accelerators(DEVICE, 1)

    def begin(
        name: str, source: builders.Object, runtime: str = "staged", *, kilobytes: int = 0
    ) -> Endpoint:
        storage_class = f"{name}-{os.urandom(2).hex()}"
        volumes.add(storage_class, kilobytes=kilobytes)
        cache = {
            "strategy": "NodeLocalPVC",
            "size": "1Gi",
            "storageClassName": storage_class,
            "prewarm": True,
        }
        return start(name, runtime, source=source, cache=cache)

    return begin


@pytest.fixture(scope="module")
def staged(stage: Stage, served: registry.Served) -> Endpoint:
    source = {"uri": served.model, "secretRef": {"name": "registry"}}
    endpoint = stage("staged", source)
    _add_secret(endpoint, "registry", {".dockerconfigjson": served.docker_config})
    return endpoint


def _add_secret(endpoint: Endpoint, name: str, content: dict[str, str]) -> None:
    is_registrys = ".dockerconfigjson" in content
    endpoint.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": endpoint.namespace, "name": name},
            "type": "kubernetes.io/dockerconfigjson" if is_registrys else "Opaque",
            "stringData": content,
        }
    )


def _delete(endpoint: Endpoint, kind: str, suffix: str) -> None:
    endpoint.cluster.kubectl(
        "delete", kind, f"{endpoint.name}-{suffix}", f"-n={endpoint.namespace}"
    )


def _job(endpoint: Endpoint) -> builders.Object:
    found = endpoint.cluster.get("job", f"{endpoint.name}-prewarm", endpoint.namespace)
    assert found is not None, "there is no Job"
    return found


def _complete(endpoint: Endpoint) -> bool:
    conditions = _job(endpoint).get("status", {}).get("conditions", [])
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def test_weights_are_staged_while_no_accelerator_is_held_and_then_wake(staged: Endpoint) -> None:
    staged.wait_armed()
    assert _complete(staged)
    assert staged.replica_numbers() == [0]
    assert staged.started_pods() == 0
    answer = staged.ask("Out of the cache")
    assert answer.finished
    assert "Out of the cache" in answer.text
    (pod,) = staged.pods()
    (engine,) = pod["spec"]["containers"]
    assert engine["resources"]["limits"] == {DEVICE: "1"}
    assert staged.replica_numbers() == [0, 1]


def test_deleting_the_job_stages_again_and_stops_nothing(staged: Endpoint) -> None:
    stop = threading.Event()
    # Without a pause, so that the engine is never idle, however slow the looks are.
    answers = staged.asking_on(stop)
    try:
        staged.wait_ready()
        before, since = _job(staged)["metadata"]["uid"], staged.cluster.audit.mark()
        pods = {pod["metadata"]["uid"] for pod in staged.pods()}
        _delete(staged, "job", "prewarm")

        def staged_again() -> bool:
            return _job(staged)["metadata"]["uid"] != before and _complete(staged)

        staged.cluster.wait("the weights are staged again", staged_again)
        assert {pod["metadata"]["uid"] for pod in staged.pods()} == pods
    finally:
        stop.set()
    assert all(answer.finished for answer in answers.result())
    assert staged.replica_numbers(since) in ([], [1])
    assert not staged.deletions(since)


def test_a_replaced_claim_starts_nothing_until_its_weights_are_staged(
    staged: Endpoint, volumes: Volumes
) -> None:
    staged.wait_asleep()
    claim = staged.cluster.get("persistentvolumeclaim", "staged-cache", staged.namespace)
    assert claim is not None
    volumes.add(claim["spec"]["storageClassName"])
    since = staged.cluster.audit.mark()
    # A Pod that ended keeps its claim as well; a cluster removes such Pods sooner or later.
    (pod,) = staged.pods("prewarm")
    staged.cluster.kubectl("delete", "pod", pod["metadata"]["name"], f"-n={staged.namespace}")
    _delete(staged, "persistentvolumeclaim", "cache")
    staged.wait_condition("Ready", "False", "CacheReplaced")

    def paused() -> bool:
        annotations: builders.Object = staged.scaled_object()["metadata"]["annotations"]
        return "autoscaling.keda.sh/paused-scale-out" in annotations

    staged.cluster.wait("KEDA is kept from starting a replica", paused)
    held = staged.asking("Worth the wait")
    staged.cluster.wait("the request is held", lambda: staged.queue()["demand"] == 1)
    time.sleep(12)  # More than one look of KEDA's.
    assert staged.replica_numbers(since) in ([], [0])
    _delete(staged, "job", "prewarm")
    answer = held.result()
    assert answer.finished
    assert "Worth the wait" in answer.text
    assert not paused()


def test_a_hub_that_wants_a_token_says_so_and_serves_who_has_it(
    stage: Stage, hub: localhub.LocalHub, installed: running.Cluster
) -> None:
    token = {"secretKeyRef": {"name": "hub", "key": "token", "optional": True}}
    weights = "/cache/hub/models--noctaya--small/snapshots/*/weights.bin"
    env: list[builders.Object] = [
        {"name": "HF_ENDPOINT", "value": hub.url},
        {"name": "HF_TOKEN", "valueFrom": token},
    ]
    installed.apply(builders.staged_runtime("of-a-hub", device=DEVICE, weights=weights, env=env))
    service = stage("of-a-hub", {"uri": "hf://noctaya/small@main"}, "of-a-hub")
    service.wait_condition("Ready", "False", "PrewarmFailed")
    assert "HF_TOKEN" in service.condition("Degraded")["message"]
    _add_secret(service, "hub", {"token": TOKEN})
    _delete(service, "job", "prewarm")
    service.wait_armed()
    assert service.replica_numbers() == [0]
    assert "From the hub" in service.ask("From the hub").text


@pytest.mark.parametrize(
    ("name", "credentials", "kilobytes", "words"),
    [
        ("absent", True, 0, "not found"),
        ("swapped", True, 0, "mismatch"),
        ("model", False, 0, "unauthorized"),
        ("model", True, MODEL_BYTES // 2048, "no space"),
    ],
    ids=["a digest that is not there", "bytes of another digest", "no credentials", "no space"],
)
def test_weights_that_cannot_be_staged_show_the_reason(
    stage: Stage,
    served: registry.Served,
    name: str,
    credentials: bool,
    kilobytes: int,
    words: str,
) -> None:
    source: builders.Object = {"uri": getattr(served, name)}
    if credentials:
        source["secretRef"] = {"name": "registry"}
    failing = stage("failing", source, kilobytes=kilobytes)
    if credentials:
        _add_secret(failing, "registry", {".dockerconfigjson": served.docker_config})
    failing.wait_condition("Ready", "False", "PrewarmFailed")
    message = failing.condition("Degraded")["message"]
    assert words in message
    assert f"kubectl delete job failing-prewarm -n {failing.namespace}" in message
    assert failing.replica_numbers() == [0]
    assert failing.cluster.get("scaledobject", failing.name, failing.namespace) is None
    # A world that stands still is not written to.
    since = failing.cluster.audit.mark()
    time.sleep(5)
    ours = [e for e in failing.writes(since) if e.user == noctaya.METACONTROLLER]
    assert ours == []
