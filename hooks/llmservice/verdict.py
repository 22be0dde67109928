"""One condition's judgement, and how it is written so that a quiet world writes nothing."""

import dataclasses
import datetime

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice.reasons import Reason

# A condition is for reading, and what it quotes may be as long as an annotation.
_LONGEST_MESSAGE = 4000


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A condition without its name and time."""

    status: str
    reason: str
    message: str

    @classmethod
    def of_failure(cls, reason: Reason, message: str) -> "Verdict":
        """Degraded, by ``reason``; the help follows what was seen."""
        end = "" if message.endswith(".") else "."
        words = f"{message}{end} {reason.help}" if message else reason.help
        return cls("True", reason.value, words)


def true(reason: Reason, message: str) -> Verdict:
    """The condition holds."""
    return Verdict("True", reason.value, message)


def false(reason: Reason | str, message: str) -> Verdict:
    """The condition does not hold."""
    return Verdict("False", str(reason), message)


def unfinished(words: str) -> str:
    """Words that a sentence goes on after: others' words, and our own help, may end in a period."""
    return words if words.endswith("...") else words.removesuffix(".")


def condition(kind: str, verdict: Verdict, parent: Object, *, now: datetime.datetime) -> Object:
    """The condition as it is stored. Its time moves only when its status does."""
    before = objects.condition(parent, kind)
    since = objects.text(before, "lastTransitionTime")
    if before.get("status") != verdict.status or objects.parse_time(since) is None:
        since = objects.format_time(now)
    written: Object = {
        "lastTransitionTime": since,
        "message": _readable(verdict.message),
        "reason": verdict.reason,
        "status": verdict.status,
        "type": kind,
    }
    generation = objects.number(parent, "metadata", "generation")
    return written if generation is None else written | {"observedGeneration": generation}


def _readable(message: str) -> str:
    """What is wrong stands at a message's beginning, and what to do at its end."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    half = _LONGEST_MESSAGE // 2
    return f"{message[:half]} ... {message[-half:]}"
