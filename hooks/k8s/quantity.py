"""Resource quantities in the one spelling that an API server hands back.

Metacontroller compares what we return with what it observes as literal JSON. A quantity in another
spelling (``1000m``, ``0.5Gi``) would be rewritten by the API server and sent again at every sync,
for ever. The rules are those of apimachinery's ``resource.Quantity``.
"""

import functools
import math
import re
from decimal import Decimal
from fractions import Fraction

SYNTAX = (
    r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)"
    r"([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$"
)

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = Fraction(1, 10**9)

# Of a spelling. A million digits would keep Python busy for half a minute, and everybody waiting.
LONGEST = 64

# apimachinery keeps quantities in an int64; it caps larger ones without a word, we refuse them.
_MOST = 2**63 - 1


class QuantityError(ValueError):
    """Text that is no resource quantity; the message says what was found and what is expected."""


# A cluster's services write the same few, and a sync asks for each several times.
@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Fraction:
    """The exact value of ``text``. Raises QuantityError."""
    number, suffix = _split(text)
    if suffix in _BINARY:
        value = number * Fraction(1024) ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        value = number * Fraction(10) ** _DECIMAL[suffix]
    else:
        value = number * Fraction(10) ** int(suffix[1:])
    if abs(value) > _MOST:
        raise QuantityError(f"{text!r} is larger than any quantity can be")
    return value


@functools.lru_cache(maxsize=1024)
def canonical(text: str) -> str:
    """``text`` as an API server would write it. Raises QuantityError."""
    suffix = _split(text)[1]
    exponent = suffix not in _DECIMAL and suffix not in _BINARY
    return render(parse(text), binary=suffix in _BINARY, exponent=exponent)


def render(value: Fraction, *, binary: bool = False, exponent: bool = False) -> str:
    """``value`` in canonical form, in the family of suffixes that its author used."""
    if value == 0:
        return "0"
    # Without a suffix nothing says "binary" any more: an API server reads such a number as decimal.
    if binary and value.denominator == 1 and value % 1024 == 0:
        return _render_binary(int(value))
    return _render_decimal(value, exponent=exponent)


def _split(text: str) -> tuple[Fraction, str]:
    if len(text) > LONGEST:
        raise QuantityError(
            f"{text[:LONGEST]!r}... is longer than the {LONGEST} characters of a resource quantity"
        )
    if not re.fullmatch(SYNTAX, text):
        raise QuantityError(
            f"{text!r} is not a resource quantity; write it like 500m, 2, 1.5Gi or 60Gi"
        )
    number = re.match(r"[+-]?[0-9.]+", text)
    assert number is not None
    suffix = text[number.end() :]
    return Fraction(Decimal(number.group())), suffix


def _render_binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY):
        value //= 1024
        power += 1
    return f"{value}{['', *_BINARY][power]}"


def _render_decimal(value: Fraction, *, exponent: bool) -> str:
    # Below a billionth a quantity is rounded up, so that something asked for is something given.
    nanos = math.ceil(value / _NANO)
    power = -9
    while nanos % 1000 == 0 and power < 18:
        nanos //= 1000
        power += 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{next(suffix for suffix, at in _DECIMAL.items() if at == power)}"
