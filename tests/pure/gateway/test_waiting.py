import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.waiting import Estimate, beat_interval, hold_limit, retry_after


@pytest.mark.parametrize(
    ("headers", "limit"),
    [
        pytest.param({}, 280.0, id="unknown: below undici's 300 s"),
        pytest.param({"x-stainless-read-timeout": "600"}, 595.0, id="openai-python"),
        pytest.param({"x-stainless-read-timeout": "20.5"}, 15.5, id="short"),
        pytest.param({"x-stainless-read-timeout": "4"}, 2.0, id="shorter than the margin"),
        pytest.param({"x-stainless-timeout": "600"}, 280.0, id="node: undici knows nothing of it"),
        pytest.param({"x-stainless-timeout": "60"}, 55.0, id="node, short"),
        pytest.param({"x-stainless-read-timeout": "never"}, 280.0, id="words"),
        pytest.param({"x-stainless-read-timeout": "-1"}, 280.0, id="negative"),
        pytest.param({"x-stainless-read-timeout": "inf"}, 280.0, id="infinite"),
    ],
)
def test_a_hold_ends_before_its_client_gives_up(headers: dict[str, str], limit: float) -> None:
    assert hold_limit(headers, activation_timeout=1000) == limit
    assert hold_limit(headers, activation_timeout=1.5) == 1.5


@pytest.mark.parametrize(
    ("headers", "interval"),
    [
        pytest.param({}, 10.0, id="unknown"),
        pytest.param({"x-stainless-read-timeout": "600"}, 10.0, id="patient"),
        pytest.param({"x-stainless-read-timeout": "5"}, 2.5, id="impatient"),
        pytest.param({"x-stainless-timeout": "5"}, 2.5, id="node"),
        pytest.param({"x-stainless-read-timeout": "0.001"}, 0.5, id="absurd"),
        pytest.param({"x-stainless-read-timeout": "-5"}, 10.0, id="no number of seconds"),
    ],
)
def test_who_waits_for_less_is_told_more_often(headers: dict[str, str], interval: float) -> None:
    assert beat_interval(headers, interval=10) == interval
    assert beat_interval(headers, interval=0.1) == 0.1


@given(seconds=st.floats(0, 1e6), jitter=st.floats(0, 1, exclude_max=True))
def test_retry_after_is_a_value_that_every_sdk_honours(seconds: float, jitter: float) -> None:
    value = retry_after(seconds, jitter=jitter)
    assert isinstance(value, int)
    assert 1 <= value <= 60
    if 4 <= seconds <= 40:
        assert 0.7 * seconds <= value <= 1.3 * seconds + 1


def test_clients_refused_together_do_not_come_back_together() -> None:
    assert len({retry_after(40, jitter=n / 10) for n in range(10)}) > 5


def test_an_estimate_is_a_guess_until_a_cold_start_was_seen() -> None:
    estimate = Estimate(startup_budget=600, activation_timeout=300)
    assert estimate.seconds() == 150
    for seconds in (20, 30, 100):
        estimate.learn(seconds)
    assert estimate.seconds() == 30
    assert estimate.remaining(elapsed=10) == 20
    assert estimate.remaining(elapsed=50) == 0


def test_old_cold_starts_are_forgotten() -> None:
    estimate = Estimate(startup_budget=600, activation_timeout=300)
    for _ in range(100):
        estimate.learn(500)
    for _ in range(9):
        estimate.learn(5)
    assert estimate.seconds() == 5
