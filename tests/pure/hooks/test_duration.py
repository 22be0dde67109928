"""Durations in Go's syntax."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hooks.k8s import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", "0"),
        ("10s", "10"),
        ("2m", "120"),
        ("1h30m", "5400"),
        ("1.5h", "5400"),
        (".5s", "0.5"),
        ("1.s", "1"),
        ("5m0s", "300"),
        ("1500ms", "1.5"),
        ("10us", "0.00001"),
        ("10µs", "0.00001"),
        ("10μs", "0.00001"),
        ("1ns", "0.000000001"),
    ],
)
def test_reads_every_spelling_of_go(text: str, seconds: str) -> None:
    assert duration.parse(text) == Decimal(seconds)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 s", "5S", "s", "1d", "5m 10s", "5s\n", "1e3s"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(duration.DurationError, match="is not a duration; write it like"):
        duration.parse(text)


def test_refuses_more_digits_than_it_should_read() -> None:
    with pytest.raises(duration.DurationError, match="longer than the 32 characters") as refused:
        duration.parse("9" * 1_000_000 + "h")
    assert len(str(refused.value)) < 200


def test_refuses_what_an_int64_of_nanoseconds_cannot_hold() -> None:
    with pytest.raises(duration.DurationError, match="longer than any duration"):
        duration.parse("2562048h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [("10", "10"), ("0.5", "0.5"), ("300", "300"), ("1E-9", "0.000000001"), ("0", "0")],
)
def test_is_written_without_an_exponent(seconds: str, text: str) -> None:
    assert duration.plain(Decimal(seconds)) == text
