"""Processes as the Kubernetes objects they stand for: Pods, and the status of their Deployment.

The status code that judges them is the cluster's own, so they say what a kubelet and a Deployment
controller would say.
"""

import dataclasses
import datetime
from collections.abc import Sequence

from hooks.k8s import objects
from hooks.k8s.objects import Object

CRASH_LOOP = "CrashLoopBackOff"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exit:
    """How a process ended."""

    code: int
    started_at: datetime.datetime
    at: datetime.datetime
    last_words: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replica:
    """What is known of one replica's process at one moment."""

    pod: str
    created_at: datetime.datetime
    started_at: datetime.datetime | None = None
    """None while no process runs: before the first start, and while a restart is delayed."""
    ready: bool = False
    ready_changed_at: datetime.datetime
    refusal: str = ""
    """What its readiness request is answered, in words, where that looks like a mistake."""
    restarts: int = 0
    last_exit: Exit | None = None
    backoff_seconds: float = 0
    """The delay before the next start; 0: none."""
    ending_since: datetime.datetime | None = None


def pod(deployment: Object, replica: Replica) -> Object:
    template = objects.mapping(deployment, "spec", "template")
    metadata: Object = {
        **objects.mapping(template, "metadata"),
        "name": replica.pod,
        "namespace": objects.text(deployment, "metadata", "namespace"),
        "uid": f"uid-of-{replica.pod}",
        "creationTimestamp": objects.format_time(replica.created_at),
    }
    if replica.ending_since is not None:
        metadata["deletionTimestamp"] = objects.format_time(replica.ending_since)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": objects.mapping(template, "spec"),
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "startTime": objects.format_time(replica.created_at),
            "conditions": _conditions(replica),
            "containerStatuses": [_container(template, replica)],
        },
    }


def deployment_status(
    deployment: Object, replicas: Sequence[Replica], *, now: datetime.datetime
) -> Object:
    """As the Deployment controller writes it: counts that are 0 are left out."""
    staying = [replica for replica in replicas if replica.ending_since is None]
    ready = sum(replica.ready for replica in staying)
    wanted = objects.number(deployment, "spec", "replicas") or 0
    counts = {
        "replicas": len(staying),
        "updatedReplicas": len(staying),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
    }
    return {
        **{name: count for name, count in counts.items() if count},
        "observedGeneration": objects.number(deployment, "metadata", "generation") or 1,
        "conditions": [
            _available(deployment, enough=ready >= wanted - _spare(deployment, wanted), now=now)
        ],
    }


def _available(deployment: Object, *, enough: bool, now: datetime.datetime) -> Object:
    before = objects.condition(deployment, "Available")
    status = "True" if enough else "False"
    since = objects.format_time(now)
    if before.get("status") == status:
        since = objects.text(before, "lastTransitionTime") or since
    return {
        "type": "Available",
        "status": status,
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": "",
        "lastTransitionTime": since,
    }


def _spare(deployment: Object, wanted: int) -> int:
    """maxUnavailable where it is a number; a share of so few replicas rounds down to none."""
    strategy = objects.mapping(deployment, "spec", "strategy", "rollingUpdate")
    return min(wanted, objects.number(strategy, "maxUnavailable") or 0)


def _conditions(replica: Replica) -> list[Object]:
    created = objects.format_time(replica.created_at)
    changed = objects.format_time(replica.ready_changed_at)
    ready = "True" if replica.ready else "False"
    return [
        {"type": kind, "status": status, "lastTransitionTime": since}
        for kind, status, since in (
            ("PodScheduled", "True", created),
            ("Initialized", "True", created),
            ("ContainersReady", ready, changed),
            ("Ready", ready, changed),
        )
    ]


def _container(template: Object, replica: Replica) -> Object:
    container = objects.items(template, "spec", "containers")[0]
    status: Object = {
        "name": objects.text(container, "name"),
        "image": objects.text(container, "image"),
        "ready": replica.ready,
        "started": replica.started_at is not None,
        "restartCount": replica.restarts,
        "state": _state(replica),
        "lastState": {},
    }
    if replica.last_exit is not None:
        status["lastState"] = {"terminated": _terminated(replica.last_exit)}
    return status


def _state(replica: Replica) -> Object:
    if replica.started_at is not None:
        return {"running": {"startedAt": objects.format_time(replica.started_at)}}
    if replica.last_exit is None:
        return {"waiting": {"reason": "ContainerCreating"}}
    if replica.backoff_seconds:
        message = f"back-off {replica.backoff_seconds:.0f}s restarting the engine"
        return {"waiting": {"reason": CRASH_LOOP, "message": message}}
    return {"terminated": _terminated(replica.last_exit)}


def _terminated(ended: Exit) -> Object:
    return {
        "exitCode": ended.code,
        "reason": "Error" if ended.code else "Completed",
        "message": ended.last_words,
        "startedAt": objects.format_time(ended.started_at),
        "finishedAt": objects.format_time(ended.at),
    }
