"""Noctaya without KEDA, and KEDA that comes later."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import noctaya
from tests.cluster.scenarios.conftest import Start

pytestmark = pytest.mark.alone

POKES = 5
POKE_SECONDS = 6.0


@pytest.fixture
def no_keda(installed: running.Cluster) -> Iterator[running.Cluster]:
    """A cluster that never had KEDA, as far as a Metacontroller that starts now can tell."""
    noctaya.stop_metacontroller(installed)
    installed.keda_stop()
    installed.keda_uninstall_crds()
    noctaya.start_metacontroller(installed)
    yield installed
    installed.keda_install()


def test_two_replicas_run_without_keda_and_are_handed_over_to_it(
    no_keda: running.Cluster, start: Start
) -> None:
    service = start("late", replicas=(2, 3))
    service.wait_ready(2)
    service.wait_condition("AutoscalingReady", "False", "AutoscalerMissing")
    assert service.ask("No KEDA").finished
    pods = {pod["metadata"]["uid"] for pod in service.pods()}

    no_keda.keda_install()

    for _ in range(POKES):
        # Metacontroller knows a new kind only after its next discovery.
        noctaya.poke(no_keda)
        time.sleep(POKE_SECONDS)
        if service.condition("AutoscalingReady")["reason"] != "AutoscalerMissing":
            break
    service.cluster.wait(
        "KEDA has taken over", lambda: service.condition("AutoscalingReady")["status"] == "True"
    )
    assert service.replica_numbers() == [2]
    assert {pod["metadata"]["uid"] for pod in service.pods()} == pods
    assert service.ask("With KEDA").finished
    assert not service.deletions()
