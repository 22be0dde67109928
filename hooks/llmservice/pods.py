"""A Pod as far as a status needs it: how far its start has come, or how it failed.

The kubelet words its waiting states anew at every retry (ErrImagePull and ImagePullBackOff take
turns, back-off times grow); here each kind of failure has one wording.
"""

import dataclasses
import datetime
import enum
import re

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.reasons import Reason
from hooks.llmservice.render.fetcher import FINAL_EXIT_CODES

# A termination message can be 4 KiB of log.
_LONGEST_WORDS = 300

# The fetcher's one line begins with what is wrong and ends with what to do; it is quoted whole.
_LONGEST_LINE = 1000

_IMAGE_TROUBLE = {
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
}
_CONFIG_TROUBLE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

# How a process ends that was told to: by itself, by SIGKILL, by SIGTERM.
_TOLD_TO_END = (0, 137, 143)
# By how much the kubelet of a busy node may be late.
_LATE_SECONDS = 10


class Stage(enum.IntEnum):
    """How far a replica's start has come."""

    WAITING = 0  # No word from the scheduler.
    UNSCHEDULABLE = 1
    STARTING = 2
    STAGING = 3  # Its own first container brings the weights.
    LOADING = 4
    READY = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """What failed, in the words of a condition."""

    reason: Reason
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class PodSeen:
    """One backend Pod."""

    # Since when it is awaited: since it was made, had its weights, or stopped being ready.
    since: datetime.datetime | None
    stage: Stage
    scheduler_words: str
    attempt: str  # How its staging last ended, where that is tried again; else empty.
    failure: Failure | None


def read(pod: Object, container: str) -> PodSeen:
    """What ``pod`` shows of its start; ``container`` is the one that matters."""
    status = _container_status(pod, container, "containerStatuses")
    stager = _container_status(pod, names.FETCHER_CONTAINER, "initContainerStatuses")
    end = _bad_end(stager)
    return PodSeen(
        since=_since(pod, status, stager),
        stage=_stage(pod, status, stager),
        scheduler_words=objects.text(objects.condition(pod, "PodScheduled"), "message"),
        attempt=fetchers_words(end) if end and not _is_final(end) else "",
        failure=_stager_failure(pod, stager, end) or _failure(pod, status, container),
    )


def fetchers_words(ended: Object) -> str:
    """What the fetcher said of its end, on one line."""
    words = objects.text(ended, "message") or (
        f"the fetcher ended with exit code {objects.number(ended, 'exitCode')}"
        f" ({objects.text(ended, 'reason') or 'no reason'})"
    )
    return one_line(words)


def one_line(words: str) -> str:
    """Words of the fetcher or about it, for a sentence that goes on."""
    line = " ".join(words.split()).rstrip(".")
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


def trouble(found: list[Object], container: str) -> str:
    """What keeps the first of these Pods from being ready, in words; may be empty."""
    for pod in found:
        seen = read(pod, container)
        if seen.failure is not None:
            return seen.failure.message
        if seen.stage is Stage.UNSCHEDULABLE:
            return f"no node takes its Pod: {seen.scheduler_words}"
    return ""


def unmounted(found: list[Object], container: str, template: Object) -> str:
    """The Secrets that these Pods may be waiting for, in words; may be empty.

    Which volume is missing stands in an Event, which hooks do not see.
    """
    secrets = [
        objects.text(volume, "secret", "secretName")
        for volume in objects.items(template, "spec", "volumes")
        if "secret" in volume and objects.dig(volume, "secret", "optional") is not True
    ]
    waiting = any(
        objects.text(
            _container_status(pod, container, "containerStatuses"), "state", "waiting", "reason"
        )
        == "ContainerCreating"
        for pod in found
    )
    if not waiting or not secrets:
        return ""
    return f"a Pod is being made; it waits where there is no Secret {', '.join(secrets)}"


def forbidden(deployment: Object) -> str:
    """Why the Deployment's Pods cannot be made (quota, limit range, Pod Security), or nothing."""
    condition = objects.condition(deployment, "ReplicaFailure")
    if condition.get("status") != "True":
        return ""
    # The generated name in it differs at every attempt.
    return _short(re.sub(r'pods "[^"]*"', "a Pod", objects.text(condition, "message")))


def _stage(pod: Object, status: Object, stager: Object) -> Stage:
    if objects.condition(pod, "Ready").get("status") == "True":
        return Stage.READY
    if objects.mapping(status, "state").keys() & {"running", "terminated"}:
        return Stage.LOADING
    if "running" in objects.mapping(stager, "state") or _bad_end(stager):
        return Stage.STAGING
    scheduled = objects.condition(pod, "PodScheduled").get("status")
    if scheduled == "True" or objects.text(pod, "spec", "nodeName"):
        return Stage.STARTING
    return Stage.UNSCHEDULABLE if scheduled == "False" else Stage.WAITING


def _since(pod: Object, status: Object, stager: Object) -> datetime.datetime | None:
    created = objects.time(pod, "metadata", "creationTimestamp")
    if status.get("started") is not True:
        return objects.time(stager, "state", "terminated", "finishedAt") or created
    return objects.time(objects.condition(pod, "Ready"), "lastTransitionTime") or created


def _bad_end(stager: Object) -> Object:
    """How the stager's last run ended, where that was badly and none since ended well."""
    state, last = objects.mapping(stager, "state"), objects.mapping(stager, "lastState")
    ended = objects.mapping(state, "terminated") or objects.mapping(last, "terminated")
    return ended if ended.get("exitCode") not in (0, None) else {}


def _is_final(end: Object) -> bool:
    """Whether another try cannot mend it."""
    return objects.number(end, "exitCode") in FINAL_EXIT_CODES


def _stager_failure(pod: Object, stager: Object, end: Object) -> Failure | None:
    if (blocked := _blocked(pod, stager, names.FETCHER_CONTAINER)) is not None:
        return blocked
    if not end or not _is_final(end):
        return None
    return Failure(
        reason=Reason.PREWARM_FAILED,
        message=f"the replica's node cannot stage the weights: {fetchers_words(end)}",
    )


def _failure(pod: Object, status: Object, container: str) -> Failure | None:
    if (blocked := _blocked(pod, status, container)) is not None:
        return blocked
    ended = objects.mapping(status, "state", "terminated") or objects.mapping(
        status, "lastState", "terminated"
    )
    if not ended or objects.dig(status, "ready") is True:
        return None
    waiting = objects.text(status, "state", "waiting", "reason")
    return _end(
        ended,
        container,
        backing_off=waiting == "CrashLoopBackOff",
        remark=_unanswered(pod, container, ended),
    )


def _blocked(pod: Object, status: Object, container: str) -> Failure | None:
    """What keeps the container from starting at all."""
    waiting = objects.mapping(status, "state", "waiting")
    reason = objects.text(waiting, "reason")
    if reason in _IMAGE_TROUBLE:
        return _image_failure(pod, status, container)
    if reason in _CONFIG_TROUBLE:
        words = _short(objects.text(waiting, "message"))
        return Failure(
            reason=Reason.CONTAINER_CONFIG_INVALID,
            message=f"container {container} cannot be created: {words or reason}",
        )
    return None


def _image_failure(pod: Object, status: Object, container: str) -> Failure:
    image = objects.text(status, "image")
    namespace = objects.text(pod, "metadata", "namespace")
    service = objects.text(pod, "metadata", "labels", names.LABEL_SERVICE)
    return Failure(
        reason=Reason.IMAGE_PULL_FAILED,
        message=f"image {image} of container {container} cannot be pulled; the registry's answer"
        f" is in the events of: kubectl describe pods -n {namespace}"
        f" -l {names.LABEL_SERVICE}={service}",
    )


def _end(ended: Object, container: str, *, backing_off: bool, remark: str) -> Failure:
    if objects.text(ended, "reason") == "OOMKilled":
        return Failure(
            reason=Reason.OOM_KILLED,
            message=f"container {container} was killed for want of memory",
        )
    code = objects.number(ended, "exitCode")
    words = _short(objects.text(ended, "message"))
    return Failure(
        reason=Reason.CRASH_LOOP_BACK_OFF if backing_off else Reason.CONTAINER_RESTARTING,
        message=f"container {container} ended with exit code {code}"
        + (f": {words}" if words else "")
        + remark,
    )


def _unanswered(pod: Object, container: str, ended: Object) -> str:
    """Words for an end like that which the kubelet gives a container whose startup probe fails;
    else empty. That it was the kubelet stands in an Event, which hooks do not see."""
    probe = objects.mapping(_named(pod, container, "spec", "containers"), "startupProbe")
    started, finished = objects.time(ended, "startedAt"), objects.time(ended, "finishedAt")
    if objects.number(ended, "exitCode") not in _TOLD_TO_END or not started or not finished:
        return ""
    period = objects.number(probe, "periodSeconds") or 10
    budget = period * (objects.number(probe, "failureThreshold") or 3)
    begin = objects.number(probe, "initialDelaySeconds") or 0
    grace = objects.number(pod, "spec", "terminationGracePeriodSeconds") or 30
    lasted = (finished - started).total_seconds() - begin
    latest = budget + period + grace + _LATE_SECONDS
    if not probe or not 0 < budget - period <= lasted <= latest:
        return ""
    path = objects.text(probe, "httpGet", "path")
    return (
        f"; the kubelet ends one whose startup probe{path and f' GET {path}'} does not succeed"
        f" within {begin + budget} s: see whether the InferenceRuntime's spec.health.startup asks"
        " the right path, and for long enough"
    )


def _container_status(pod: Object, container: str, among: str) -> Object:
    return _named(pod, container, "status", among)


def _named(pod: Object, container: str, *path: str) -> Object:
    for found in objects.items(pod, *path):
        if found.get("name") == container:
            return found
    return {}


def _short(words: str) -> str:
    """One line without the ids that differ at every attempt; its end is kept, a log's best part."""
    line = re.sub(r"\b[0-9a-f]{64}\b", "ID", " ".join(words.split()))
    return line if len(line) <= _LONGEST_WORDS else "..." + line[-_LONGEST_WORDS:]
