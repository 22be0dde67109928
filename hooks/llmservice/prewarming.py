"""What the Job that stages the weights, and its Pods, say of how far it is."""

import dataclasses

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names, pods, weights
from hooks.llmservice.names import ServiceName
from hooks.llmservice.pods import Failure, Stage
from hooks.llmservice.reasons import Reason
from hooks.llmservice.verdict import unfinished
from hooks.llmservice.weights import Weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrewarmSeen:
    """The weights, and in words what their Job does."""

    weights: Weights
    progress: str  # Empty where no weights are awaited, or where they are there.
    failure: Failure | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Staged:
    """What there is to look at. Absent objects are empty."""

    service: ServiceName
    namespace: str
    job: Object
    claim: Object
    pods: list[Object]  # Every Pod of the component, ended ones and other Jobs' included.
    pending_claim: str  # The claim in words while it is not bound; else empty.

    @property
    def own_pods(self) -> list[Object]:
        """The Job's Pods, by name. One that is restaging has a predecessor's beside its own."""
        uid = objects.text(self.job, "metadata", "uid")
        own = [pod for pod in self.pods if objects.controller_of(pod).get("uid") == uid != ""]
        return sorted(own, key=lambda pod: objects.text(pod, "metadata", "name"))

    @property
    def again(self) -> str:
        """The command that has the weights staged once more."""
        return f"kubectl delete job {names.prewarm(self.service)} -n {self.namespace}"


def see(state: Weights, staged: Staged) -> PrewarmSeen:
    """What the world shows of the staging that ``state`` sums up."""
    if state.usable:
        return PrewarmSeen(weights=state, progress="", failure=None)
    return PrewarmSeen(weights=state, progress=_progress(staged), failure=_failure(state, staged))


def _failure(state: Weights, staged: Staged) -> Failure | None:
    job, claim = names.prewarm(staged.service), names.cache(staged.service)
    match state:
        case Weights.REPLACED:
            return Failure(
                reason=Reason.CACHE_REPLACED,
                message=f"claim {claim} is not the one that Job {job} staged the weights on;"
                f" {staged.again} stages them again",
            )
        case Weights.FAILED:
            said = _last_words(staged) or objects.text(
                objects.condition(staged.job, "Failed"), "message"
            )
            return Failure(
                reason=Reason.PREWARM_FAILED,
                message=f"Job {job} failed: {pods.one_line(said)}; {staged.again} tries again",
            )
        case _:
            return _blocked(staged)


def _blocked(staged: Staged) -> Failure | None:
    """A Pod that cannot start, as long as nobody does anything about it."""
    for pod in _live(staged):
        failure = pods.read(pod, names.FETCHER_CONTAINER).failure
        if failure is not None and failure.reason in (
            Reason.IMAGE_PULL_FAILED,
            Reason.CONTAINER_CONFIG_INVALID,
        ):
            return failure
    return None


def _progress(staged: Staged) -> str:
    job, namespace = names.prewarm(staged.service), staged.namespace
    if not staged.job and not weights.can_be_put_on(staged.claim):
        return f"Job {job} is made once claim {names.cache(staged.service)} is there"
    if not staged.own_pods:
        return (
            f"Job {job} is about to stage the weights; where no Pod of it appears, kubectl describe"
            f" job {job} -n {namespace} says why"
        )
    for pod in _live(staged):
        seen = pods.read(pod, names.FETCHER_CONTAINER)
        if seen.stage is Stage.UNSCHEDULABLE:
            scheduler = seen.scheduler_words or "the scheduler does not say why"
            listed = "; ".join(
                unfinished(words) for words in (scheduler, staged.pending_claim) if words
            )
            return (
                f"no node takes the Pod of Job {job}: {listed}. Where the InferenceRuntime's"
                f" nodeSelector or tolerations were wrong, mend them, and {staged.again}"
            )
    looked_up = f"kubectl logs -n {namespace} job/{job} --follow"
    said = f"Job {job} stages the weights; {looked_up} shows how far it is"
    words = _last_words(staged)
    return f"{said}. An attempt failed and is made again: {words}" if words else said


def _live(staged: Staged) -> list[Object]:
    return [
        pod
        for pod in staged.own_pods
        if objects.text(pod, "status", "phase") not in ("Failed", "Succeeded")
        and not objects.text(pod, "metadata", "deletionTimestamp")
    ]


def _last_words(staged: Staged) -> str:
    """What the last attempt that failed said; empty where none did, or where its Pod is gone."""
    ends = [end for pod in staged.own_pods if (end := _end(pod)) is not None]
    return max(ends, default=("", ""))[1]


def _end(pod: Object) -> tuple[str, str] | None:
    """When the Pod's fetcher failed, and its words for why."""
    for status in objects.items(pod, "status", "containerStatuses"):
        ended = objects.mapping(status, "state", "terminated")
        if status.get("name") != names.FETCHER_CONTAINER or ended.get("exitCode") in (0, None):
            continue
        return objects.text(ended, "finishedAt"), pods.fetchers_words(ended)
    return None
