"""The engine's command line."""

import pytest

from local import command


def test_variables_are_expanded_as_the_kubelet_does() -> None:
    words = ["--port=$(PORT)", "$(HOST):$(PORT)", "$(UNSET)", "$$(PORT)", "$HOME", "a$"]
    assert command.expand(words, {"PORT": "1", "HOST": "h"}) == [
        "--port=1",
        "h:1",
        "$(UNSET)",
        "$(PORT)",
        "$HOME",
        "a$",
    ]


def test_a_value_is_not_expanded_again() -> None:
    assert command.expand(["$(A)"], {"A": "$(B)", "B": "b"}) == ["$(B)"]


def test_the_annotation_is_an_array_of_words() -> None:
    assert command.parse('["vllm", "serve"]') == ["vllm", "serve"]


@pytest.mark.parametrize(
    "text",
    [
        *("vllm serve", '"vllm"', '["vllm", 1]', "[]", '[""]', "{}"),
        pytest.param("[" * 100_000, id="nested too deep"),
        pytest.param("1" * 5000, id="a number of too many digits"),
    ],
)
def test_anything_else_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected a JSON array of strings like \["noctaya-echo'):
        command.parse(text)


@pytest.mark.parametrize("word", [r"a\u0000b", r"\ud800", r"a\udfff"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_word_that_no_program_can_get_is_refused(word: str, at: int) -> None:
    words = ["noctaya-echo", "x"]
    words[at] = word
    with pytest.raises(ValueError, match="which no program can get"):
        command.parse('["{}", "{}"]'.format(*words))
