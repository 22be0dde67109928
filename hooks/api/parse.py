"""From raw JSON to a model, and from what pydantic found wrong to sentences a person can act on."""

import difflib
import typing
from typing import Any, TypeVar

import pydantic
from pydantic_core import ErrorDetails

from hooks.api.fields import Spec
from hooks.k8s import objects

T = TypeVar("T", bound=Spec)

# A wholly wrong object has hundreds of faults; a status is for reading.
_MOST_PROBLEMS = 5


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
        problems = [_sentence(model, path, fault) for fault in error.errors(include_url=False)]
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        problems[_MOST_PROBLEMS:] = [f"and {more} more"]
    raise Invalid(tuple(problems))


def nearest(name: str, known: list[str]) -> str:
    """A hint that names the known spelling nearest to ``name``; empty where none is near."""
    # A wrong capital is the commonest slip and difflib weighs it like any other letter.
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return f"; did you mean {by_folded[close[0]]}?" if close else ""


def _sentence(model: type[Spec], path: str, fault: ErrorDetails) -> str:
    where = path + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"]
    )
    found = _shown(fault["input"])
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
            return f"{where}: {found} does not match {context['pattern']}"
        case "value_error":
            return f"{where}: {context['error']}"
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


def _shown(value: Any) -> str:
    """What was found, short: values may be long, and a status may not."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    shown = objects.compact(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


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
