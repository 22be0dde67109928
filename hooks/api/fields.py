"""The kinds of values that fields hold, each said once: to pydantic and to the CRD's schema.

Scalars are strict: an API server refuses ``"3"`` for an integer, so the hooks refuse it too.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import annotated_types
import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

from hooks.k8s import duration, quantity

INT32_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Rule:
    """One CEL rule: what must hold, and what to tell a person when it does not."""

    rule: str
    message: str


class Spec(BaseModel):
    """Base of every model: frozen, camelCase on the wire, unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)

    # Rules that an API server checks on values of this type; the model's validators check the same.
    cel: ClassVar[tuple[Rule, ...]] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Value(annotated_types.GroupedMetadata):
    """Metadata of an Annotated type: the checks of the model and the schema that says the same."""

    schema: Mapping[str, Any]
    checks: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.checks)


# --- Scalars --------------------------------------------------------------------------------------


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def text(
    most: int, *, pattern: str | None = None, least: int = 1, rules: tuple[Rule, ...] = ()
) -> Value:
    """A string of at most ``most`` characters: the bound that the cost of CEL rules needs."""
    schema: dict[str, Any] = {"type": "string", "maxLength": most}
    checks: tuple[Any, ...] = (Strict(), pydantic.StringConstraints(max_length=most))
    if least:
        schema["minLength"] = least
        checks += (AfterValidator(_not_blank),)
    if pattern is not None:
        schema["pattern"] = pattern
        checks += (pydantic.StringConstraints(pattern=pattern),)
    if rules:
        schema |= _validations(rules)
    return Value(schema, checks)


def _validations(rules: tuple[Rule, ...]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [dataclasses.asdict(rule) for rule in rules]}


def whole(least: int, most: int = INT32_MOST) -> Value:
    """A whole number between ``least`` and ``most``, both included."""
    schema: dict[str, Any] = {"type": "integer", "format": "int32", "minimum": least}
    if most != INT32_MOST:
        schema["maximum"] = most
    return Value(schema, (Strict(), Field(ge=least, le=most)))


INT32 = whole(-(2**31))
INT64 = Value({"type": "integer", "format": "int64"}, (Strict(), Field(ge=-(2**63), lt=2**63)))

Flag = Annotated[bool, Value({"type": "boolean"}, (Strict(),))]
# A DNS subdomain, as the name of every object that is referred to.
ObjectName = Annotated[str, text(253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
DataKey = Annotated[str, text(253, pattern="^[-._a-zA-Z0-9]+$")]
# Of a device plugin. A name without a domain would be one of Kubernetes' own.
ResourceName = Annotated[
    str,
    text(317, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
]
HeaderName = Annotated[str, text(256, pattern="^[-A-Za-z0-9]+$")]
# Of printable ASCII; nothing else gets past any API server, and older ones take less.
EnvName = Annotated[str, text(253, pattern="^[ -<>-~]+$")]
PortName = Annotated[str, text(15, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
Argument = Annotated[str, text(8192, least=0)]
UrlPath = Annotated[str, text(1024, pattern="^/")]
# Stands in a shell command, so nothing that a shell would read.
MetricsPath = Annotated[str, text(1024, pattern="^/[A-Za-z0-9._~/-]*$")]
MetricName = Annotated[str, text(256, pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$")]


# --- Quantities, numbers or names -----------------------------------------------------------------


def _canonical_quantity(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a resource quantity; write it in quotes, like '500m'")
    if quantity.parse(value) <= 0:
        raise ValueError(f"{value!r} must be more than zero")
    return quantity.canonical(value)


# Held in canonical form, so that what is rendered is what an API server will show.
Quantity = Annotated[
    str,
    Value(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": quantity.LONGEST,
            "pattern": quantity.SYNTAX,
            "x-kubernetes-int-or-string": True,
        },
        (BeforeValidator(_canonical_quantity),),
    ),
]


def _int_or_text(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise ValueError(f"{value!r} is neither a number nor a name")
    return value


IntOrText = Annotated[
    int | str,
    Value(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 63,
            "x-kubernetes-int-or-string": True,
        },
        (BeforeValidator(_int_or_text),),
    ),
]


# --- Durations ------------------------------------------------------------------------------------

# A rule that ends in an error, as `duration('soon')` does, is held against every write to an object
# that is older than it, a status too. One that is false is not, where the field stays as it is.
_IS_ONE = f"self.matches(r'{duration.SYNTAX}')"

POSITIVE = Rule(
    f"{_IS_ONE} && duration(self) > duration('0s')",
    "must be a duration of more than zero, like 10s",
)
WHOLE_SECONDS_TO_AN_HOUR = Rule(
    # By milliseconds: over text made from a number, the API server counts a cost without bound.
    f"{_IS_ONE} && duration(self) <= duration('1h')"
    " && duration(self).getMilliseconds() % 1000 == 0",
    "must be whole seconds between 0s and 1h, like 5m",
)


def _duration(value: object) -> Decimal:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write it like 10s, 2m or 1h30m")
    return duration.parse(value)


def _positive(value: object) -> Decimal:
    seconds = _duration(value)
    if seconds <= 0:
        raise ValueError(f"{POSITIVE.message}, found {value!r}")
    return seconds


def _whole_seconds_to_an_hour(value: object) -> Decimal:
    seconds = _duration(value)
    if seconds > 3600 or seconds != seconds.to_integral_value():
        raise ValueError(f"{WHOLE_SECONDS_TO_AN_HOUR.message}, found {value!r}")
    return seconds


def _duration_value(read: Callable[[object], Decimal], *rules: Rule) -> Value:
    schema: dict[str, Any] = {
        "type": "string",
        "maxLength": duration.LONGEST,
        "pattern": duration.SYNTAX,
    }
    if rules:
        schema |= _validations(rules)
    return Value(schema, (BeforeValidator(read),))


# Decimal seconds.
Duration = Annotated[Decimal, _duration_value(_duration)]
PositiveDuration = Annotated[Decimal, _duration_value(_positive, POSITIVE)]
StabilizationDuration = Annotated[
    Decimal, _duration_value(_whole_seconds_to_an_hour, WHOLE_SECONDS_TO_AN_HOUR)
]


# --- Collections ----------------------------------------------------------------------------------


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def many(most: int, *, least: int = 0, keyed_by: str | None = None) -> Value:
    """A list of at most ``most`` items, held as a tuple; ``keyed_by`` is unique among them."""
    schema: dict[str, Any] = {"maxItems": most}
    checks: tuple[Any, ...] = (BeforeValidator(_tuple), Field(min_length=least, max_length=most))
    if least:
        schema["minItems"] = least
    if keyed_by is not None:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [keyed_by]}
        checks += (AfterValidator(_Unique(keyed_by)),)
    return Value(schema, checks)


@dataclasses.dataclass(frozen=True)
class _Unique:
    key: str

    def __call__(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [getattr(value, self.key) for value in values]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.key} {name!r} is given twice")
        return values


_LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = f"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}"
_LABEL_VALUE = f"^({_LABEL_NAME})?$"


def _label_keys(labels: Mapping[str, str]) -> Mapping[str, str]:
    for key in labels:
        if not re.fullmatch(_LABEL_KEY, key):
            raise ValueError(f"{key!r} is no name of a label; expected NAME or DOMAIN/NAME")
    return labels


LabelMap = Annotated[
    Mapping[str, Annotated[str, Strict(), pydantic.StringConstraints(pattern=_LABEL_VALUE)]],
    Value(
        {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE},
            "maxProperties": 64,
        },
        (AfterValidator(_label_keys),),
    ),
]
