"""Claims of one node: what the status says where their replicas find no place."""

import os
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import layout
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.troubles import Trouble, Troubles
from tests.cluster.scenarios.volumes import Volumes

DEVICE = "rig.noctaya.io/of-volumes"


@pytest.fixture(scope="module")
def crowded(installed: running.Cluster, troubles: Troubles, volumes: Volumes) -> Iterator[Trouble]:
    """Two replicas on one claim, and one device on the node that has its volume."""
    installed.accelerators(DEVICE, 1)
    runtime = builders.runtime(f"devices-{os.urandom(2).hex()}")
    runtime["metadata"]["annotations"] = {}
    runtime["spec"]["accelerator"]["resourceName"] = DEVICE
    installed.apply(runtime)
    storage_class = f"here-{os.urandom(2).hex()}"
    volumes.add(storage_class)
    name = runtime["metadata"]["name"]
    asked = {"cache": _cache(storage_class), "runtime": {"name": name}}
    yield troubles.begin("crowded", service=asked, replicas=(2, 2))
    installed.kubectl("delete", "inferenceruntime", name, "--wait=false")


@pytest.fixture(scope="module")
def elsewhere(installed: running.Cluster, troubles: Troubles) -> Iterator[Trouble]:
    """Its volume is of a node that has gone."""
    storage_class = f"elsewhere-{os.urandom(2).hex()}"
    path = str(layout.STATE / "volumes")
    installed.apply(builders.volume(storage_class, storage_class, path, "another-node"))
    yield troubles.begin("elsewhere", service={"cache": _cache(storage_class)})
    installed.kubectl("delete", "persistentvolume", storage_class, "--wait=false")


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(crowded: Trouble, elsewhere: Trouble) -> None:
    """Their starts overlap."""


def test_a_replica_that_a_claim_keeps_on_a_full_node_is_told_what_keeps_it(
    crowded: Trouble,
) -> None:
    crowded.endpoint.wait_ready()
    crowded.wait_words(
        "Ready", "wanted: 2", f"Insufficient {DEVICE}", "crowded-cache is ReadWriteOnce"
    )
    assert crowded.endpoint.ask("Of one").finished
    crowded.endpoint.cluster.accelerators(DEVICE, 2)
    crowded.endpoint.wait_ready(2)


def test_a_volume_of_another_node_is_told_of_and_another_cache_is_enough(
    elsewhere: Trouble,
) -> None:
    elsewhere.endpoint.wait_condition("Ready", "False", "SchedulingDelayed")
    # The scheduler's own words.
    elsewhere.wait_words("Ready", "no node takes the Pod", "PersistentVolume's node affinity")
    elsewhere.edit(cache={"strategy": "None"})
    elsewhere.endpoint.wait_ready()


def _cache(storage_class: str) -> Object:
    return {"strategy": "NodeLocalPVC", "size": "1Gi", "storageClassName": storage_class}
