"""Cold starts, cut from logs."""

import json

import pytest

from bench import split

PHASES = {
    "accepted": 100.0,
    "signalled": 100.001,
    "released": 100.51,
    "forwarded": 100.515,
    "first_byte": 100.52,
}
GATEWAY = "\n".join(
    json.dumps(record)
    for record in (
        {"ts": 90.0, "event": "gateway started"},
        {"ts": 95.0, "event": "request", "status": 200},
        {"ts": 100.6, "event": "request", "status": 200, "phases": PHASES},
    )
)


def engine(at: float) -> str:
    notes = (
        {"time": at, "event": "listening", "started": at - 0.4},
        {"time": at + 0.01, "event": "healthy"},
    )
    return "".join(f"{json.dumps(note)}\n" for note in notes)


def test_only_requests_that_waited_are_cold_starts() -> None:
    assert [record["ts"] for record in split.requests(GATEWAY)] == [100.6]


def test_the_engine_that_came_up_meanwhile_is_the_one() -> None:
    (request,) = split.requests(GATEWAY)
    start = split.cold_start(request, engine(50.0) + engine(100.5) + engine(120.0))
    assert list(start.moments) == list(split.MOMENTS)
    assert start.between("listens", "forwarded") == pytest.approx(0.015)
    assert start.between("accepted", "first byte") == pytest.approx(0.52)
    assert start.between("started", "listens") == pytest.approx(0.4)


def test_a_request_without_an_engine_of_its_own_is_an_error() -> None:
    (request,) = split.requests(GATEWAY)
    with pytest.raises(LookupError, match="listening"):
        split.cold_start(request, engine(50.0))


def test_a_half_written_line_is_left_for_later() -> None:
    assert split.requests(GATEWAY[:-3]) == []


def test_quantiles_are_in_milliseconds() -> None:
    assert split.quantiles([number / 1000 for number in range(101)]) == split.Quantiles(
        p50=50.0, p95=95.0
    )


def test_the_table_has_a_line_for_each_phase_and_the_whole() -> None:
    (request,) = split.requests(GATEWAY)
    starts = [split.cold_start(request, engine(100.5))] * 2
    lines = split.table(starts)
    assert len(lines) == len(split.MOMENTS)
    assert lines[0].split() == ["accepted", "->", "signalled", "1.0", "1.0"]
    assert lines[-1].split() == ["accepted", "->", "first", "byte", "520.0", "520.0"]
