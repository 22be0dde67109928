"""Our annotations on what users write. One that means nothing there is a mistake, like a field.

Nothing else would tell of a slip: an API server takes any annotation. Refusing it leaves the
children as they were (rule 1), which is right for one that a newer release knows as well: ignoring
it would undo what that release made of it. So that going back to an older release refuses nothing
that no user wrote, what a release writes onto users' objects itself needs another prefix than
`PREFIX`; `names.AUTOSCALING` is the one from before.
"""

from typing import Literal

from hooks.api import GROUP, parse
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names

Kind = Literal["LLMService", "InferenceRuntime"]

PREFIX = f"{GROUP}/"

# What users may write, and where.
ON: dict[Kind, tuple[str, ...]] = {
    "LLMService": (names.GATEWAY_REPLICAS, names.DATA_HEARTBEATS),
    "InferenceRuntime": (
        names.ACCELERATOR,
        names.FIRST_BYTE_TIMEOUT,
        names.IDLE_TIMEOUT,
        names.INFERENCE_PATHS,
        names.LOCAL_COMMAND,
    ),
}

_WRITTEN_BY_US = (names.AUTOSCALING,)


def mistakes(obj: Object, kind: Kind) -> list[tuple[str, str]]:
    """The annotations under our prefix that mean nothing on a ``kind``, each with why, in words."""
    known = (*ON[kind], *_WRITTEN_BY_US)
    return [
        (name, _why(name, kind))
        for name in sorted(objects.mapping(obj, "metadata", "annotations"))
        if name.casefold().startswith(PREFIX) and name not in known
    ]


def sentences(obj: Object, kind: Kind) -> list[str]:
    """The same as whole sentences."""
    return [f"annotation {name}: {why}" for name, why in mistakes(obj, kind)]


def _why(name: str, kind: Kind) -> str:
    for other, taken in ON.items():
        if name in taken:
            return f"has no meaning on {_a(kind)}; it is for {_a(other)}"
    shorts = [taken.removeprefix(PREFIX) for taken in ON[kind]]
    hint = parse.nearest(name[len(PREFIX) :], shorts)
    return f"unknown annotation{hint or f'; {_a(kind)} takes ' + ', '.join(shorts)}"


def _a(kind: Kind) -> str:
    return f"an {kind}"
