"""Failures that are seen, and the last one that is carried forward after its Pods have gone."""

import dataclasses
import datetime

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice.observe import BackendSeen, DeploymentSeen, Seen
from hooks.llmservice.pods import Failure, Stage
from hooks.llmservice.reasons import Reason

# A gateway needs an image pull and a second; after this long something is wrong.
GATEWAY_DEADLINE_SECONDS = 120

# A claim that waits for its first consumer is bound within seconds of it.
CLAIM_DEADLINE_SECONDS = 60

# Where several Pods failed, the reason that says most about the cause comes first.
_ORDER = (
    Reason.OOM_KILLED,
    Reason.CONTAINER_CONFIG_INVALID,
    Reason.IMAGE_PULL_FAILED,
    Reason.PREWARM_FAILED,
    Reason.CRASH_LOOP_BACK_OFF,
    Reason.CONTAINER_RESTARTING,
)


class Deadlines:
    """Asks whether a deadline has passed, and remembers the next one that has not."""

    def __init__(self, *, now: datetime.datetime) -> None:
        self._now = now
        self.next_seconds = 0.0

    def passed(self, since: datetime.datetime | None, seconds: int) -> bool:
        """Whether ``seconds`` have passed since then; False where nothing tells since when."""
        if since is None:
            return False
        left = seconds - (self._now - since).total_seconds()
        if left <= 0:
            return True
        # A second more, since the times of Kubernetes are whole seconds.
        self.next_seconds = min(self.next_seconds or left + 1, left + 1)
        return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failed:
    """What failed. `backend` may be a failure of an earlier activation, and then says so.

    It may also be one of the staging that the backend waits for.
    """

    gateway: Failure | None
    backend: Failure | None
    # What the status keeps; None where nothing is to be carried forward.
    kept: Failure | None


def find(seen: Seen, before: Object, deadlines: Deadlines) -> Failed:
    """The failures in ``seen``; ``before`` is the status' lastFailure."""
    gateway = _gateway(seen.gateway, deadlines)
    if seen.backend.ready > 0:
        return Failed(gateway=gateway, backend=None, kept=None)
    if seen.prewarm.failure is not None:
        # Nothing to carry: it is seen for as long as it stands.
        kept = _carried(before, seen.backend.template_hash)
        return Failed(gateway=gateway, backend=seen.prewarm.failure, kept=kept)
    now = _backend(seen.backend, deadlines)
    if now is not None:
        return Failed(gateway=gateway, backend=now, kept=now)
    kept = _carried(before, seen.backend.template_hash)
    backend = None
    if kept is not None:
        backend = dataclasses.replace(kept, message=f"last activation failed: {kept.message}")
    return Failed(gateway=gateway, backend=backend, kept=kept)


def remember(failed: Failed, backend: BackendSeen) -> Object:
    """The status' lastFailure, where there is one."""
    if failed.kept is None:
        return {}
    return {
        "lastFailure": {
            "message": failed.kept.message,
            "reason": failed.kept.reason.value,
            "templateHash": backend.template_hash,
        }
    }


def _gateway(gateway: DeploymentSeen, deadlines: Deadlines) -> Failure | None:
    if gateway.available:
        return None
    if not deadlines.passed(gateway.unavailable_since, GATEWAY_DEADLINE_SECONDS):
        return None
    return Failure(reason=Reason.GATEWAY_NOT_READY, message=gateway.trouble)


def _backend(backend: BackendSeen, deadlines: Deadlines) -> Failure | None:
    if backend.replicas == 0:
        return None
    if backend.forbidden:
        return Failure(reason=Reason.PODS_FORBIDDEN, message=backend.forbidden)
    of_pods = [pod.failure for pod in backend.pods if pod.failure is not None]
    if of_pods:
        return min(of_pods, key=lambda failure: _ORDER.index(failure.reason))
    return _claim(backend, deadlines) or _too_slow(backend, deadlines)


def _claim(backend: BackendSeen, deadlines: Deadlines) -> Failure | None:
    waiting = [pod for pod in backend.pods if pod.stage is Stage.UNSCHEDULABLE]
    if not backend.pending_claim or not waiting:
        return None
    if not any(deadlines.passed(pod.since, CLAIM_DEADLINE_SECONDS) for pod in waiting):
        return None
    return Failure(
        reason=Reason.CACHE_PENDING,
        message=f"{backend.pending_claim}; the scheduler says: {waiting[0].scheduler_words}",
    )


def _too_slow(backend: BackendSeen, deadlines: Deadlines) -> Failure | None:
    """The Deployment controller reports no missed deadline for a scale-up from zero; a hook can."""
    late = [
        pod
        for pod in backend.pods
        # A download takes as long as it takes; it says itself when it fails.
        if pod.stage not in (Stage.READY, Stage.STAGING)
        and deadlines.passed(pod.since, backend.deadline_seconds)
    ]
    if not late:
        return None
    words = late[0].scheduler_words
    return Failure(
        reason=Reason.PROGRESS_DEADLINE_EXCEEDED,
        message=f"no node takes the Pod: {words}" if words else "",
    )


def _carried(before: Object, template_hash: str) -> Failure | None:
    reason = objects.text(before, "reason")
    if reason not in list(Reason) or objects.text(before, "templateHash") != template_hash:
        return None
    return Failure(reason=Reason(reason), message=objects.text(before, "message"))
