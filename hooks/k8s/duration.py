"""Durations in Go's syntax (``10s``, ``2m30s``, ``1.5h``), as exact decimal seconds."""

import re
from decimal import Decimal

# Like Go's own parser, without a sign: no duration of this API may be negative.
_PART = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
SYNTAX = f"^(0|({_PART})+)$"

_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),  # U+00B5, micro sign
    "μs": Decimal("1e-6"),  # U+03BC, Greek mu
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}

# Of a spelling; see `hooks.k8s.quantity.LONGEST`.
LONGEST = 32

# Go holds a duration in an int64 of nanoseconds.
_MOST = Decimal(2**63 - 1) / 10**9


class DurationError(ValueError):
    """Text that is not a duration; the message says what was found and what is expected."""


def parse(text: str) -> Decimal:
    """Seconds. Raises DurationError."""
    if len(text) > LONGEST:
        raise DurationError(
            f"{text[:LONGEST]!r}... is longer than the {LONGEST} characters of a duration"
        )
    if not re.fullmatch(SYNTAX, text):
        raise DurationError(f"{text!r} is not a duration; write it like 10s, 2m or 1h30m")
    parts = re.findall(r"([0-9.]+)([a-zµμ]+)", text)
    total = sum((Decimal(number) * _SECONDS[unit] for number, unit in parts), Decimal(0))
    if total > _MOST:
        raise DurationError(f"{text!r} is longer than any duration can be")
    return total


def plain(seconds: Decimal) -> str:
    """Seconds as a plain decimal number without an exponent: ``10``, ``0.5``."""
    return f"{seconds.normalize():f}"
