"""The kinds of values that fields hold, each said once: to pydantic and to the CRD's schema.

Scalars are strict: an API server refuses ``"3"`` for an integer, so the hooks refuse it too.
"""

import dataclasses
import json
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


def shown(value: Any) -> str:
    """What was found, short: values may be long, and a status may not."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return shortened(json.dumps(value, ensure_ascii=False))


def shortened(text: str) -> str:
    """``text``, or its beginning where it is long."""
    return text if len(text) <= 80 else text[:77] + "..."


INT32 = whole(-(2**31))
INT64 = Value({"type": "integer", "format": "int64"}, (Strict(), Field(ge=-(2**63), lt=2**63)))

_OBJECT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_DATA_KEY = "^[-._a-zA-Z0-9]+$"
_RESOURCE_NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_HEADER_NAME = "^[-A-Za-z0-9]+$"
_ENV_NAME = "^[ -<>-~]+$"
# A letter somewhere, and no two dashes beside each other.
_PORT_NAME = "^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$"
_IMAGE = r"^\S+$"
_POD_FIELD = (
    r"^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)
_CONTAINER_RESOURCE = r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)$"
_URL_PATH = "^/"
_METRICS_PATH = "^/[A-Za-z0-9._~/-]*$"
_METRIC_NAME = "^[a-zA-Z_:][a-zA-Z0-9_:]*$"
_LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = f"^({_LABEL_NAME})?$"
_LABEL_KEY = f"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}"
_TAINT_KEY = f"^({_LABEL_KEY})?$"

# What a value must be that a pattern refuses.
IN_WORDS = {
    _OBJECT_NAME: "lower-case letters, digits, and dashes and dots between them",
    _DATA_KEY: "letters, digits, dashes, dots and underscores",
    _RESOURCE_NAME: "what a device plugin offers, like nvidia.com/gpu",
    _HEADER_NAME: "letters, digits and dashes",
    _ENV_NAME: "printable ASCII characters without =",
    _PORT_NAME: "lower-case letters, digits and single dashes between them, and hold a letter",
    _IMAGE: "an image's name, which holds no spaces",
    _POD_FIELD: "a field of the Pod that a variable can have, like metadata.name, status.podIP or"
    " metadata.labels['KEY']",
    _CONTAINER_RESOURCE: "a resource of the container, like limits.memory or requests.cpu",
    _TAINT_KEY: "a taint's key like NAME or DOMAIN/NAME",
    _URL_PATH: "a path that begins with /",
    _METRICS_PATH: "a path that begins with /, of letters, digits and . _ ~ / - alone",
    _METRIC_NAME: "letters, digits, underscores and colons, no digit first",
    _LABEL_VALUE: "at most 63 letters, digits, dashes, dots and underscores, a letter or digit"
    " first and last",
}

Flag = Annotated[bool, Value({"type": "boolean"}, (Strict(),))]
# A DNS subdomain, as the name of every object that is referred to.
ObjectName = Annotated[str, text(253, pattern=_OBJECT_NAME)]
DataKey = Annotated[str, text(253, pattern=_DATA_KEY)]
# Of a device plugin. A name without a domain would be one of Kubernetes' own.
ResourceName = Annotated[str, text(317, pattern=_RESOURCE_NAME)]
HeaderName = Annotated[str, text(256, pattern=_HEADER_NAME)]
# Of printable ASCII; nothing else gets past any API server, and older ones take less.
EnvName = Annotated[str, text(253, pattern=_ENV_NAME)]
ImageName = Annotated[str, text(1024, pattern=_IMAGE)]
PodField = Annotated[str, text(253, pattern=_POD_FIELD)]
ContainerResource = Annotated[str, text(253, pattern=_CONTAINER_RESOURCE)]
TaintKey = Annotated[str, text(317, least=0, pattern=_TAINT_KEY)]
TaintValue = Annotated[str, text(63, least=0, pattern=_LABEL_VALUE)]
PortName = Annotated[str, text(15, pattern=_PORT_NAME)]
Argument = Annotated[str, text(8192, least=0)]
UrlPath = Annotated[str, text(1024, pattern=_URL_PATH)]
# Stands in a shell command, so nothing that a shell would read.
MetricsPath = Annotated[str, text(1024, pattern=_METRICS_PATH)]
MetricName = Annotated[str, text(256, pattern=_METRIC_NAME)]


# --- Quantities, numbers or names -----------------------------------------------------------------


def _canonical_quantity(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(
            f"{shown(value)} is not a resource quantity; write it in quotes, like '500m'"
        )
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
        raise ValueError(f"{shown(value)} is neither a number nor a name")
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
        raise ValueError(f"{shown(value)} is not a duration; write it like 10s, 2m or 1h30m")
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


@dataclasses.dataclass(frozen=True)
class _Listed:
    """A list as a tuple, of a length that is looked at first: many items take long to look at."""

    least: int
    most: int

    def __call__(self, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        if len(value) > self.most:
            raise ValueError(f"must have at most {self.most} items, found {len(value)}")
        if len(value) < self.least:
            raise ValueError(f"must have at least {self.least}, found {len(value)}")
        return tuple(value)


def many(most: int, *, least: int = 0, keyed_by: str | None = None) -> Value:
    """A list of at most ``most`` items, held as a tuple; ``keyed_by`` is unique among them."""
    schema: dict[str, Any] = {"maxItems": most}
    checks: tuple[Any, ...] = (BeforeValidator(_Listed(least, most)),)
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
