"""Quantities come out as an API server would write them.

The expected spellings were taken from apimachinery's own tests and from objects read back from an
API server.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.k8s import quantity


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("01", "1"),
        ("1.0", "1"),
        ("1.", "1"),
        (".5", "500m"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1m", "100u"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1000k", "1M"),
        ("1.5G", "1500M"),
        ("2E", "2E"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1.5e3", "1500"),
        ("20e2", "2e3"),
        ("1e-3", "1e-3"),
        ("0.5Gi", "512Mi"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1500Ki", "1500Ki"),
        ("0.5Ki", "512"),
        ("2.9296875Ki", "3k"),
        ("1.3Ki", "1331200m"),
        ("60Gi", "60Gi"),
        ("0.1n", "1n"),
    ],
)
def test_is_written_as_an_api_server_writes_it(written: str, canonical: str) -> None:
    assert quantity.canonical(written) == canonical
    assert quantity.canonical(canonical) == canonical


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1\n", "1g", "1KI", "1 Gi", "--1", "1e", "e3", "1,5", "Gi", "\u0661"]
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match="is not a resource quantity"):
        quantity.canonical(text)


@pytest.mark.parametrize("digits", [65, 1_000_000])
def test_refuses_more_digits_than_it_should_read(digits: int) -> None:
    """A million took half a minute, in which nobody else was answered."""
    with pytest.raises(quantity.QuantityError, match="longer than the 64 characters") as refused:
        quantity.canonical("9" * digits)
    assert len(str(refused.value)) < 200


def test_refuses_what_an_int64_cannot_hold() -> None:
    with pytest.raises(quantity.QuantityError, match="larger than any quantity"):
        quantity.canonical("9223372036854775808")


@given(st.fractions(min_value=0, max_value=2**60), st.booleans())
def test_keeps_the_value_of_what_it_writes(value: Fraction, binary: bool) -> None:
    nanos = Fraction(int(value * 10**9), 10**9)
    assert quantity.parse(quantity.render(nanos, binary=binary)) == nanos


@given(
    st.decimals(min_value=0, max_value=10**6, places=4),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
)
def test_is_written_once_and_then_stays(number: Decimal, suffix: str) -> None:
    canonical = quantity.canonical(f"{number}{suffix}")
    assert quantity.canonical(canonical) == canonical


@pytest.mark.parametrize("memory", ["10G", "64Gi", "1500M", "3001", "7Ki", "1e9"])
def test_half_of_a_quantity_is_written_to_stay_as_well(memory: str) -> None:
    half = quantity.render(Fraction(quantity.parse(memory) // 2), binary=True)
    assert quantity.canonical(half) == half
