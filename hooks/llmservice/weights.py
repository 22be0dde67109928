"""How far the weights on the cache claim are, as the Job that stages them shows."""

import enum

from hooks.api.llmservice import LLMServiceSpec
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import memory, names


class Weights(enum.Enum):
    """The state of the weights that a service needs before a replica may start."""

    NOT_AWAITED = enum.auto()  # The engine fetches them itself, or they stand on a claim already.
    STAGED = enum.auto()
    STAGING = enum.auto()
    FAILED = enum.auto()
    REPLACED = enum.auto()  # They were staged on a claim that is not the service's any more.

    @property
    def usable(self) -> bool:
        """Whether a replica that starts now finds what it needs."""
        return self in (Weights.NOT_AWAITED, Weights.STAGED)


def are_staged(spec: LLMServiceSpec) -> bool:
    """Whether the spec asks for weights that the fetcher brings, and not the engine."""
    source = spec.model.source
    return spec.cache.prewarm or (source is not None and source.uri.startswith("oci://"))


def are_awaited(spec: LLMServiceSpec) -> bool:
    """Whether the spec asks for weights that a Job stages before any replica starts.

    On the nodes' own folders they cannot be: which node a replica gets is not known before.
    """
    return are_staged(spec) and spec.cache.strategy != "HostPath"


def judge(job: Object, claim: Object) -> Weights:
    """The state of weights that are awaited. An absent Job or claim is an empty object."""
    made_for, now = memory.annotation(job, names.CLAIM_UID), uid(claim)
    if job and now and made_for is not None and made_for != now:
        return Weights.REPLACED
    if objects.condition(job, "Failed").get("status") == "True":
        return Weights.FAILED
    complete = objects.condition(job, "Complete").get("status") == "True"
    return Weights.STAGED if complete and now and made_for == now else Weights.STAGING


def are_gone(backend: Object, claim: Object) -> bool:
    """Whether the backend was made for weights on another claim than the one that is seen."""
    staged_on, now = memory.annotation(backend, names.STAGED_ON), uid(claim)
    return staged_on is not None and bool(now) and staged_on != now


def can_be_put_on(claim: Object) -> bool:
    """Whether a Job may be made for the claim: it is seen, and is not about to go."""
    return bool(uid(claim)) and not objects.text(claim, "metadata", "deletionTimestamp")


def uid(claim: Object) -> str:
    """What tells a claim from a later one of its name; empty where no claim is seen."""
    return objects.text(claim, "metadata", "uid")
