"""From raw JSON to a model, and from what pydantic found wrong to sentences a person can act on."""

import difflib
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

import pydantic
from pydantic_core import ErrorDetails

from hooks.api.fields import IN_WORDS, Spec, shortened, shown
from hooks.k8s import objects

T = TypeVar("T", bound=Spec)

# In characters, of all sentences about an object: what a status can show. Whoever made several
# slips wants to mend them in one edit; a wholly wrong object has hundreds.
_MOST_TOLD = 3000


class Invalid(Exception):
    """What was found does not fit the model; `problems` has one sentence for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read(model: type[T], value: Any, *, path: str) -> T:
    """``value`` as a ``model``; ``path`` is where it stands in its object. Raises Invalid."""
    try:
        return model.model_validate(objects.without_nulls(value))
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False)
    raise Invalid(_told((_sentence(model, path, fault) for fault in faults), len(faults)))


def _told(sentences: Iterable[str], count: int) -> tuple[str, ...]:
    """The sentences that can be shown, and how many of the ``count`` cannot."""
    told: list[str] = []
    for sentence in sentences:
        told.append(sentence)
        if sum(map(len, told)) > _MOST_TOLD:
            break
    left = count - len(told)
    return (*told, f"and {left} more, told once these are mended") if left else tuple(told)


def nearest(name: str, known: list[str]) -> str:
    """A hint that names the known spelling nearest to ``name``; empty where none is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    # A wrong capital is the commonest slip and difflib weighs it like any other letter.
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return f"; did you mean {by_folded[close[0]]}?" if close else ""


# Of a slip in a field's name. Comparing a longer one takes long and finds nothing.
_LONGEST_NAME = 100


def _sentence(model: type[Spec], path: str, fault: ErrorDetails) -> str:
    where = path + "".join(
        f"[{step}]" if isinstance(step, int) else f".{shortened(step)}" for step in fault["loc"]
    )
    found = shown(fault["input"])
    context = fault.get("ctx", {})
    match fault["type"]:
        case "extra_forbidden":
            name = str(fault["loc"][-1])
            known = _known_fields(model, fault["loc"][:-1])
            return f"{where}: unknown field{nearest(name, known)}"
        case "missing":
            return f"{where}: is required"
        case "greater_than_equal":
            return f"{where}: must be at least {context['ge']}, found {found}"
        case "less_than_equal":
            return f"{where}: must be at most {context['le']}, found {found}"
        case "literal_error":
            return f"{where}: must be {context['expected']}, found {found}"
        case "string_pattern_mismatch":
            return f"{where}: must be {IN_WORDS[context['pattern']]}, found {found}"
        case "string_too_long":
            most, length = context["max_length"], len(fault["input"])
            return f"{where}: must have at most {most} characters, found {length}"
        case "value_error":
            words = str(context["error"])
            # What is wrong with an object as a whole may name its fields by their whole path.
            is_placed = isinstance(fault["input"], dict) and f"{where}." in words
            return words if is_placed else f"{where}: {words}"
        case kind:
            expected = _EXPECTED.get(kind)
            wording = f"must be {expected}, found {found}" if expected else fault["msg"]
            return f"{where}: {wording}"


_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "int_type": "a whole number",
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "a string",
    "tuple_type": "a list",
}


def _known_fields(model: type[Spec], steps: tuple[int | str, ...]) -> list[str]:
    """The names that fields may have at the place that ``steps`` lead to."""
    for step in steps:
        if isinstance(step, int):
            continue
        inner = [_model_in(f.annotation) for f in model.model_fields.values() if f.alias == step]
        if not inner or inner[0] is None:
            return []
        model = inner[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[Spec] | None:
    """The model that an annotation like ``tuple[Model, ...] | None`` is about, if any."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return annotation
    for argument in typing.get_args(annotation):
        if (found := _model_in(argument)) is not None:
            return found
    return None
