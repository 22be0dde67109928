"""The generator: what it says, where it stops, what it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import echo
from engine.echo import Generation, Limits

SAID = f"{echo.PREFACE} one two three"


def test_the_prompt_is_echoed_after_a_sentence_that_says_what_this_is() -> None:
    generated = echo.generate("one two three", Limits(max_tokens=100))
    assert generated.text == SAID
    assert (generated.finish, generated.stop_reason) == ("stop", None)


def test_an_answer_that_meets_max_tokens_exactly_ended_by_itself() -> None:
    length = len(echo.generate("one", Limits(max_tokens=100)).tokens)
    assert echo.generate("one", Limits(max_tokens=length)).finish == "stop"
    assert echo.generate("one", Limits(max_tokens=length - 1)).finish == "length"


def test_max_tokens_cuts_the_echo() -> None:
    generated = echo.generate("one two three", Limits(max_tokens=3))
    assert generated == Generation(
        tokens=("This", " is", " the"), finish="length", stop_reason=None
    )


def test_ignore_end_fills_max_tokens_by_repeating() -> None:
    generated = echo.generate("one", Limits(max_tokens=500, ignore_end=True))
    assert len(generated.tokens) == 500
    assert generated.finish == "length"
    assert "one This is" in generated.text


def test_min_tokens_repeats_the_echo_and_ends_there() -> None:
    generated = echo.generate("one", Limits(max_tokens=500, min_tokens=40))
    assert len(generated.tokens) == 40
    assert generated.finish == "stop"


@pytest.mark.parametrize(
    ("stop", "text", "reason"),
    [
        pytest.param(("two",), f"{echo.PREFACE} one ", "two", id="between words"),
        pytest.param(("e t",), f"{echo.PREFACE} on", "e t", id="across two tokens"),
        pytest.param(("three", "one"), f"{echo.PREFACE} ", "one", id="the first in the text"),
        pytest.param(("This",), "", "This", id="at once"),
        pytest.param(("four",), SAID, None, id="never"),
    ],
)
def test_a_stop_string_ends_the_answer_and_is_no_part_of_it(
    stop: tuple[str, ...], text: str, reason: str | None
) -> None:
    generated = echo.generate("one two three", Limits(max_tokens=100, stop=stop))
    assert (generated.text, generated.finish, generated.stop_reason) == (text, "stop", reason)


def test_an_answer_cut_short_is_aborted_and_a_complete_one_is_not() -> None:
    generated = echo.generate("one", Limits(max_tokens=3))
    assert generated.after(3) == generated
    assert generated.after(1) == Generation(tokens=("This",), finish="abort", stop_reason=None)


@given(st.text(max_size=60), st.integers(1, 60), st.lists(st.text(min_size=1, max_size=3)))
def test_no_answer_holds_a_stop_string_or_more_than_max_tokens(
    prompt: str, most: int, stops: list[str]
) -> None:
    generated = echo.generate(prompt, Limits(max_tokens=most, stop=tuple(stops)))
    assert len(generated.tokens) <= most
    assert all(generated.tokens)
    assert not any(stop in generated.text for stop in stops)
    whole = f"{echo.PREFACE} {prompt}"
    assert whole.startswith(generated.text)
