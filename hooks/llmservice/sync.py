"""The Composite's two questions: what should the children be, and what is there to look at."""

import dataclasses
import datetime

from hooks import wire
from hooks.k8s import objects
from hooks.llmservice import arrange, carry, formation, judge, names, related
from hooks.llmservice.observe import observe
from hooks.llmservice.plan import Plan, Unresolved
from hooks.llmservice.resolve import resolve
from hooks.llmservice.words import Words, decode
from hooks.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """An answer, and what it was made from."""

    outcome: Plan | Unresolved
    arrangement: arrange.Arrangement
    judgement: judge.Judgement


def sync(
    request: wire.CompositeRequest, *, settings: Settings, now: datetime.datetime
) -> wire.CompositeResponse:
    """The children and the status of the request's parent."""
    decision = decide(request, settings=settings, now=now)
    return wire.CompositeResponse(
        children=list(decision.arrangement.children.values()),
        status=decision.judgement.status,
        resync_after_seconds=decision.judgement.look_again_seconds,
    )


def decide(
    request: wire.CompositeRequest, *, settings: Settings, now: datetime.datetime
) -> Decision:
    """The stages of a sync, in the form that can be explained."""
    words = _words(request)
    outcome = resolve(request, settings)
    if isinstance(outcome, Plan):
        outcome = carry.fetcher_image(outcome, request)
        outcome = formation.step(outcome, request)
        outcome = arrange.check_made_once(outcome, request)
    handed_over = words is not None and not words.withheld
    arrangement = arrange.arrange(outcome, request, handed_over=handed_over)
    seen = observe(arrangement, request)
    judgement = judge.judge(outcome, seen, words, request.parent, now=now)
    return Decision(outcome=outcome, arrangement=arrangement, judgement=judgement)


def customize(request: wire.CustomizeRequest) -> wire.CustomizeResponse:
    """The related objects that a sync of the request's parent needs."""
    return wire.CustomizeResponse(related_resources=related.rules(request.parent))


def _words(request: wire.CompositeRequest) -> Words | None:
    written = objects.annotation(request.parent, names.AUTOSCALING)
    return None if written is None else decode(written)
