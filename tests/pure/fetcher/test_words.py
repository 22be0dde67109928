"""What people and the Job read: error lines, exit codes, progress, pauses."""

import datetime
import threading

import pytest

from fetcher import errors, progress, retry

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def test_every_kind_of_error_has_its_own_exit_code_and_word() -> None:
    kinds = errors.FetchError.__subclasses__()
    assert len({kind.exit_code for kind in kinds}) == len(kinds) == 11
    assert len({kind.kind for kind in kinds}) == len(kinds)
    assert {0, 1, 130} & {kind.exit_code for kind in kinds} == set()


def test_an_error_is_one_line() -> None:
    assert errors.NoSpace("needs\n  2 GiB\t now").line() == "no space: needs 2 GiB now"


def test_silence_and_refusal_end_differently() -> None:
    assert isinstance(errors.Transient("x", stalled=True).final(3), errors.TimedOut)
    assert isinstance(errors.Transient("x").final(3), errors.Unavailable)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        (None, None),
    ],
)
def test_retry_after_is_read_as_number_or_date(value: str | None, wanted: float | None) -> None:
    headers = {} if value is None else {"Retry-After": value}
    assert retry.wish(headers, now=NOON) == wanted


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_these_statuses_are_tried_again(status: int) -> None:
    assert retry.transient(status)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 416])
def test_these_statuses_are_not(status: int) -> None:
    assert not retry.transient(status)


def test_tries_end_and_a_run_that_stops_does_not_wait() -> None:
    stop = threading.Event()
    tries = retry.Tries(stop, allowed=3, first_seconds=0.001)
    made: list[int] = []

    def fail() -> None:
        made.append(1)
        raise errors.Transient("no", after=0.0)

    with pytest.raises(errors.Unavailable, match="gave up after 3 tries"):
        tries.call(fail)
    assert len(made) == 3
    stop.set()
    with pytest.raises(errors.Interrupted):
        tries.call(fail)
    assert len(made) == 4


@pytest.mark.parametrize(
    ("done", "total", "rate", "wanted"),
    [
        (0, 4096, 0.0, "0 B of 4.0 KiB (0 %), 0 B/s, waiting for bytes"),
        (1 << 30, 4 << 30, 100 << 20, "1.0 GiB of 4.0 GiB (25 %), 100.0 MiB/s, 30 s left"),
        (0, 2 << 40, 1 << 20, "0 B of 2.0 TiB (0 %), 1.0 MiB/s, 582 h 32 min left"),
        (1, 600 << 20, 1 << 20, "1 B of 600.0 MiB (0 %), 1.0 MiB/s, 9 min left"),
        (0, 0, 0.0, "0 B of 0 B (100 %), 0 B/s, waiting for bytes"),
    ],
)
def test_progress_is_said_as_people_read_it(
    done: int, total: int, rate: float, wanted: str
) -> None:
    assert progress.line(done, total, rate) == wanted
