"""The Decorator's two questions: can services run on the runtime, and what is there to look at."""

import datetime

from hooks import wire
from hooks.api import API_VERSION
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names, runtimes
from hooks.llmservice.plan import Unresolved
from hooks.llmservice.reasons import Reason
from hooks.llmservice.runtimes import Runtime
from hooks.llmservice.verdict import Verdict, condition, false, true


def sync(
    request: wire.RuntimeDecoratorRequest, *, now: datetime.datetime
) -> wire.DecoratorResponse:
    """The status of the request's parent, whole."""
    parent = request.parent
    known = {
        objects.text(obj, "metadata", "name"): obj
        for obj in request.related.get(names.RUNTIMES, {}).values()
    }
    status: Object = {"conditions": [condition("Accepted", judge(parent, known), parent, now=now)]}
    generation = objects.number(parent, "metadata", "generation")
    if generation is not None:
        status["observedGeneration"] = generation
    return wire.DecoratorResponse(attachments=[], annotations={}, status=status)


def customize(_: wire.RuntimeCustomizeRequest) -> wire.CustomizeResponse:
    """All runtimes: two of a vendor may be alike."""
    rule = wire.RelatedRule(api_version=API_VERSION, resource="inferenceruntimes")
    return wire.CustomizeResponse(related_resources=[rule])


def judge(parent: Object, known: dict[str, Object]) -> Verdict:
    """The condition Accepted; ``known`` are all runtimes by name.

    One that is ambiguous is accepted all the same: services may still name it.
    """
    found = runtimes.read(parent)
    if isinstance(found, Unresolved):
        return false(found.reason, found.message)
    equals = _equals(found, known)
    if not equals:
        return true(Reason.ACCEPTED, Reason.ACCEPTED.help)
    return true(
        Reason.RUNTIME_AMBIGUOUS,
        f"services can name it in spec.runtime.name; those that select vendor {found.spec.vendor}"
        f" are refused, since its priority {found.spec.priority} is also that of"
        f" {', '.join(equals)}; give one of them a higher priority",
    )


def _equals(runtime: Runtime, known: dict[str, Object]) -> list[str]:
    """The names of those that are as high as this one, where none of the vendor is higher."""
    others = [
        other
        for other in runtimes.usable_of(runtime.spec.vendor, known)
        if other.name != runtime.name
    ]
    if any(other.spec.priority > runtime.spec.priority for other in others):
        return []
    return sorted(o.name for o in others if o.spec.priority == runtime.spec.priority)
