"""A deleted service leaves nothing, and takes nothing of its neighbours' with it."""

import collections
import dataclasses
import os
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS, Endpoint
from tests.cluster.scenarios.volumes import Volumes

KINDS = (
    *("deployment", "service", "serviceaccount", "rolebinding", "persistentvolumeclaim"),
    *("scaledobject", "horizontalpodautoscaler", "pod", "job", "poddisruptionbudget"),
)


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """One that goes, another one beside it, and one of its name in another namespace."""

    goes: Endpoint
    beside: Endpoint
    twin: Endpoint


@pytest.fixture
def neighbours(installed: running.Cluster) -> Iterator[Neighbours]:
    home, away = (f"{name}-{os.urandom(2).hex()}" for name in ("home", "away"))
    volumes = Volumes(installed)
    endpoints: list[Endpoint] = []
    for namespace, name in ((home, "twin"), (home, "beside"), (away, "twin")):
        if namespace not in {endpoint.namespace for endpoint in endpoints}:
            installed.kubectl("create", "namespace", namespace)
        storage_class = f"{namespace}-{name}"
        volumes.add(storage_class)
        cache = {"strategy": "NodeLocalPVC", "size": "1Gi", "storageClassName": storage_class}
        service = builders.service(namespace, name, "echo-steady", replicas=(1, 1), cache=cache)
        installed.apply(service)
        endpoints.append(Endpoint(installed, namespace, name))
    yield Neighbours(*endpoints)
    installed.kubectl("delete", "namespace", home, away, "--wait=false")
    volumes.remove()


def test_neighbours_are_untouched_and_go_on_serving(neighbours: Neighbours) -> None:
    goes, stay = neighbours.goes, (neighbours.beside, neighbours.twin)
    for endpoint in (goes, *stay):
        endpoint.wait_ready()
        endpoint.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    before = {endpoint: _objects(endpoint) for endpoint in stay}
    assert all(before.values())
    streams = [endpoint.asking(max_tokens=80, min_tokens=80) for endpoint in stay]
    for endpoint in stay:
        _wait_busy(endpoint)
    since = goes.cluster.audit.mark()
    goes.cluster.kubectl("delete", "llmservice", goes.name, f"-n={goes.namespace}")

    def nothing_left() -> bool:
        left = _objects(goes)
        assert not left, left
        return True

    goes.cluster.wait("nothing of the service is left", nothing_left, PATIENCE_SECONDS)
    assert all(stream.result().finished for stream in streams)
    assert {endpoint: _objects(endpoint) for endpoint in stay} == before
    assert neighbours.twin.deletions(since) == collections.Counter()
    assert [e for e in neighbours.twin.writes(since) if e.verb == "delete"] == []


def _wait_busy(endpoint: Endpoint) -> None:
    endpoint.cluster.wait("the stream runs", lambda: endpoint.queue()["demand"] == 1)


def _objects(endpoint: Endpoint) -> dict[str, str]:
    """The uids of all that belongs to a service, by kind and name."""
    found = {}
    for kind in KINDS:
        for made in endpoint.cluster.objects(kind, endpoint.namespace):
            if _belongs(made, endpoint.name):
                found[f"{kind}/{made['metadata']['name']}"] = made["metadata"]["uid"]
    return found


def _belongs(made: Object, service: str) -> bool:
    name = str(made["metadata"]["name"]).removeprefix("keda-hpa-")
    return name == service or name.startswith(f"{service}-")
