"""What KEDA says about a service: the parent's annotation that the autoscaling Decorator writes.

The annotation is the only channel between the two controllers. Its presence also hands over the
backend's replicas, unless it says that the ScaledObject was withheld.
"""

import dataclasses

from hooks.k8s import objects

# KEDA's messages are for reading; an annotation is not the place for a long one.
_LONGEST = 400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """KEDA's Ready condition, or why there is none. An empty `ready` is silence."""

    ready: str = ""
    reason: str = ""
    message: str = ""
    # The name of the ScaledObject is held by an object that is not ours: nothing is handed over.
    withheld: bool = False


def encode(words: Words) -> str:
    """The annotation's value: compact JSON, the same bytes for the same words."""
    said = dataclasses.asdict(words) | {"message": words.message[:_LONGEST]}
    return objects.compact({key: value for key, value in said.items() if value})


def decode(annotation: str) -> Words:
    """The words in an annotation's value; silence where somebody wrote something else."""
    try:
        said = objects.parse(annotation)
    except (ValueError, RecursionError):
        return Words()
    return Words(
        ready=objects.text(said, "ready"),
        reason=objects.text(said, "reason"),
        message=objects.text(said, "message"),
        withheld=objects.dig(said, "withheld") is True,
    )
