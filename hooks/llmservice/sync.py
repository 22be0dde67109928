"""The Composite's two questions: what should the children be, and what is there to look at."""

import datetime

from hooks import wire
from hooks.k8s import objects
from hooks.llmservice import arrange, judge, names, related
from hooks.llmservice.observe import observe
from hooks.llmservice.plan import Plan
from hooks.llmservice.resolve import resolve
from hooks.llmservice.words import Words, decode
from hooks.settings import Settings


def sync(
    request: wire.CompositeRequest, *, settings: Settings, now: datetime.datetime
) -> wire.CompositeResponse:
    """The children and the status of the request's parent."""
    words = _words(request)
    outcome = resolve(request, settings)
    if isinstance(outcome, Plan):
        outcome = arrange.check_claims(outcome, request)
    handed_over = words is not None and not words.withheld
    arrangement = arrange.arrange(outcome, request, handed_over=handed_over)
    seen = observe(arrangement, request)
    judgement = judge.judge(outcome, seen, words, request.parent, now=now)
    return wire.CompositeResponse(
        children=arrangement.children,
        status=judgement.status,
        resync_after_seconds=judgement.look_again_seconds,
    )


def customize(request: wire.CustomizeRequest) -> wire.CustomizeResponse:
    """The related objects that a sync of the request's parent needs."""
    return wire.CustomizeResponse(related_resources=related.rules(request.parent))


def _words(request: wire.CompositeRequest) -> Words | None:
    written = objects.annotation(request.parent, names.AUTOSCALING)
    return None if written is None else decode(written)
