"""Processes as Pods and Deployments, read back by the status code of the cluster."""

import datetime

from hooks.k8s import objects
from local import pods

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
LATER = NOON + datetime.timedelta(seconds=30)

DEPLOYMENT = {
    "metadata": {"name": "m-backend", "namespace": "ns", "generation": 2},
    "spec": {
        "replicas": 1,
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"hash": "1"}},
            "spec": {"containers": [{"name": "engine", "image": "i"}]},
        },
    },
}

NEW = pods.Replica(pod="m-backend-1", created_at=NOON, ready_changed_at=NOON)
ENDED = pods.Exit(code=0, started_at=NOON, at=LATER, last_words="out of memory")


def container(replica: pods.Replica) -> objects.Object:
    return objects.items(pods.pod(DEPLOYMENT, replica), "status", "containerStatuses")[0]


def replica(**changes: object) -> pods.Replica:
    return pods.Replica(**{**vars(NEW), **changes})


def test_a_pod_carries_the_labels_and_annotations_of_its_template() -> None:
    metadata = pods.pod(DEPLOYMENT, NEW)["metadata"]
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"hash": "1"}
    assert (metadata["namespace"], metadata["name"]) == ("ns", "m-backend-1")
    assert "deletionTimestamp" not in metadata


def test_a_replica_that_ends_is_being_deleted() -> None:
    metadata = pods.pod(DEPLOYMENT, replica(ending_since=LATER))["metadata"]
    assert metadata["deletionTimestamp"] == "2026-11-30T12:00:30Z"


def test_a_container_runs_waits_or_has_ended() -> None:
    assert container(NEW)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    running = container(replica(started_at=NOON, ready=True))
    assert running["state"] == {"running": {"startedAt": "2026-11-30T12:00:00Z"}}
    assert running["ready"] is True
    ended = container(replica(last_exit=ENDED))
    assert ended["state"]["terminated"]["exitCode"] == 0
    assert ended["state"]["terminated"]["message"] == "out of memory"


def test_a_delayed_restart_is_a_crash_loop_that_remembers_its_last_exit() -> None:
    waiting = container(replica(last_exit=ENDED, backoff_seconds=10, restarts=2))
    assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert waiting["lastState"]["terminated"]["reason"] == "Completed"
    assert waiting["restartCount"] == 2


def test_a_deployment_counts_what_stays_and_leaves_zeros_out() -> None:
    ready = replica(ready=True)
    status = pods.deployment_status(DEPLOYMENT, [ready, replica(ending_since=NOON)], now=NOON)
    assert status["replicas"] == status["readyReplicas"] == status["availableReplicas"] == 1
    assert "unavailableReplicas" not in status
    assert status["observedGeneration"] == 2
    assert "replicas" not in pods.deployment_status(DEPLOYMENT, [], now=NOON)


def test_available_keeps_its_time_until_it_flips() -> None:
    strict = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "strategy": {}}}
    status = pods.deployment_status(strict, [], now=NOON)
    assert objects.condition({"status": status}, "Available")["status"] == "False"
    again = pods.deployment_status({**strict, "status": status}, [], now=LATER)
    assert again == status
    flipped = pods.deployment_status({**strict, "status": status}, [replica(ready=True)], now=LATER)
    available = objects.condition({"status": flipped}, "Available")
    assert (available["status"], available["lastTransitionTime"]) == (
        "True",
        "2026-11-30T12:00:30Z",
    )
