"""Weights come from a registry while no accelerator is held, and the engine wakes from them."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import errors, layout, registry
from tests.cluster.conftest import unfit
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

DEVICE = "rig.noctaya.io/accelerator"

Stage = Callable[..., Endpoint]


@pytest.fixture(scope="module")
def served(installed: running.Cluster) -> Iterator[registry.Served]:
    try:
        yield registry.start(installed.instance, {"weights.bin": os.urandom(2**20)})
    except errors.MachineUnfit as e:
        unfit(e)
    registry.stop(installed.instance)


@pytest.fixture(scope="module")
def stage(installed: running.Cluster, served: registry.Served, start: Start) -> Iterator[Stage]:
    """Start services with a volume of their own. The node has one device."""
    volumes = []
    # The fetcher's image has no way to a private authority but its volume.
    installed.apply(
        builders.staged_runtime("staged", device=DEVICE, authority="/cache/authority.crt")
    )
    installed.accelerators(DEVICE, 1)

    def begin(name: str, uri: str, *, credentials: bool = True) -> Endpoint:
        volume = f"{name}-{os.urandom(2).hex()}"
        volumes.append(volume)
        folder = installed.instance.state / "volumes" / volume
        folder.mkdir(parents=True)
        (folder / "authority.crt").write_text(served.authority)
        inside = str(layout.STATE / "volumes" / volume)
        installed.apply(builders.volume(volume, volume, inside, layout.NODE_NAME))
        source: builders.Object = {"uri": uri}
        if credentials:
            source["secretRef"] = {"name": "registry"}
        endpoint = start(
            name,
            "staged",
            source=source,
            cache={"strategy": "NodeLocalPVC", "size": "1Gi", "storageClassName": volume},
        )
        installed.apply(_secret(endpoint.namespace, served.docker_config))
        return endpoint

    yield begin
    for volume in volumes:
        installed.kubectl("delete", "persistentvolume", volume, "--wait=false")


def _secret(namespace: str, docker_config: str) -> builders.Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": "registry"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": docker_config},
    }


@pytest.fixture(scope="module")
def staged(stage: Stage, served: registry.Served) -> Endpoint:
    return stage("staged", served.model)


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
    staged.ask("Stay awake")
    staged.wait_ready()
    before, since = _job(staged)["metadata"]["uid"], staged.cluster.audit.mark()
    pods = {pod["metadata"]["uid"] for pod in staged.pods()}
    staged.cluster.kubectl("delete", "job", f"{staged.name}-prewarm", f"-n={staged.namespace}")
    answers = []

    def staged_again() -> bool:
        # Also keeps the engine from being idle.
        answers.append(staged.ask("Still there?"))
        return _job(staged)["metadata"]["uid"] != before and _complete(staged)

    staged.cluster.wait("the weights are staged again", staged_again)
    assert all(answer.finished for answer in answers)
    assert {pod["metadata"]["uid"] for pod in staged.pods()} == pods
    assert staged.replica_numbers(since) in ([], [1])
    assert not staged.deletions(since)


@pytest.mark.parametrize(
    ("name", "credentials", "words"),
    [
        ("absent", True, "not found"),
        ("swapped", True, "mismatch"),
        ("model", False, "unauthorized"),
    ],
    ids=["a digest that is not there", "bytes of another digest", "no credentials"],
)
def test_weights_that_cannot_be_staged_show_the_reason(
    stage: Stage, served: registry.Served, name: str, credentials: bool, words: str
) -> None:
    failing = stage(f"no-{name}", getattr(served, name), credentials=credentials)
    failing.wait_condition("Ready", "False", "PrewarmFailed")
    message = failing.condition("Degraded")["message"]
    assert words in message
    assert f"kubectl delete job {failing.name}-prewarm -n {failing.namespace}" in message
    assert failing.replica_numbers() == [0]
    assert failing.cluster.get("scaledobject", failing.name, failing.namespace) is None
