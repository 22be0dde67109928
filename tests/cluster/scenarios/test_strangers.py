"""A ScaledObject of somebody else's that has a service's name: left alone, told of, waited for."""

import pytest

from tests.cluster import layout, noctaya
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

THEIRS = "theirs"


@pytest.fixture(scope="module")
def preceded(start: Start) -> Endpoint:
    """Of the name of what scales a stranger's Deployment already."""
    return start("preceded", replicas=(1, 2), beside=(_deployment(), _scaled_object("preceded")))


@pytest.fixture(scope="module")
def preceded_at_zero(start: Start) -> Endpoint:
    return start("asleep", beside=(_deployment(), _scaled_object("asleep")))


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(preceded: Endpoint, preceded_at_zero: Endpoint) -> None:
    """Their starts overlap."""


def test_a_service_serves_beside_it_and_is_scaled_once_it_has_gone(preceded: Endpoint) -> None:
    preceded.wait_ready()
    _wait_told(preceded)
    assert preceded.ask("Unscaled").finished
    before = _pods(preceded)
    _assert_untouched(preceded)

    _delete(preceded)
    preceded.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    assert _target(preceded) == "preceded-backend"
    assert preceded.ask("Scaled").finished
    assert _pods(preceded) == before
    assert preceded.replica_numbers() == [1]
    theirs = preceded.cluster.get("deployment", THEIRS, preceded.namespace)
    assert theirs is not None
    assert theirs["spec"]["replicas"] == 1


def test_a_service_at_zero_says_that_nothing_wakes_it_until_it_has_gone(
    preceded_at_zero: Endpoint,
) -> None:
    service = preceded_at_zero
    _wait_told(service)
    service.wait_condition("Ready", "False", "ChildNameTaken")
    held = service.asking("Until then")
    service.cluster.wait("the request is held", lambda: service.queue()["demand"] == 1)
    _assert_untouched(service)

    _delete(service)
    assert held.result().finished
    service.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    assert service.replica_numbers() == [0, 1]


def _deployment() -> Object:
    """A stranger's, of one replica."""
    labels = {"app": THEIRS}
    container = {"name": "main", "image": layout.BUSYBOX_IMAGE, "args": ["-c", "sleep 100000"]}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": THEIRS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _scaled_object(name: str) -> Object:
    """A stranger's, which never changes the number."""
    always = {"timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"name": THEIRS},
            "minReplicaCount": 1,
            "maxReplicaCount": 1,
            "triggers": [{"type": "cron", "metadata": {**always, "desiredReplicas": "1"}}],
        },
    }


def _wait_told(service: Endpoint) -> None:
    service.wait_condition("AutoscalingReady", "False", "ChildNameTaken")
    message = service.condition("AutoscalingReady")["message"]
    assert f"ScaledObject {service.name} is not ours and is left alone" in message


def _assert_untouched(service: Endpoint) -> None:
    """It is as the stranger made it, and Metacontroller never wrote to it."""
    assert _target(service) == THEIRS
    assert "ownerReferences" not in service.scaled_object()["metadata"]
    written = service.writes(resource="scaledobjects")
    assert written, "the audit log shows no write at all: it is not being read rightly"
    assert [str(event) for event in written if event.user == noctaya.METACONTROLLER] == []


def _delete(service: Endpoint) -> None:
    service.cluster.kubectl("delete", "scaledobject", service.name, f"-n={service.namespace}")


def _target(service: Endpoint) -> str:
    return str(service.scaled_object()["spec"]["scaleTargetRef"]["name"])


def _pods(service: Endpoint) -> set[str]:
    return {pod["metadata"]["uid"] for pod in service.pods()}
