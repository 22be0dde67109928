"""The generator: the prompt given back, word by word, after a sentence that says what this is.

Everything is known before the first token leaves, so stop strings, lengths and usage are exact and
the server only has to pace the tokens.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Literal

PREFACE = "This is the Noctaya echo engine, not a model. You said:"

# A token is a word with the space before it: joined again, tokens give the text back unchanged.
_TOKEN = re.compile(r"\s*\S+|\s+")

Finish = Literal["stop", "length", "abort"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    max_tokens: int
    min_tokens: int = 0
    """The echo is repeated until it has this many."""
    ignore_end: bool = False
    """Repeat the echo up to ``max_tokens``: a generation of a length the caller chooses."""
    stop: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generation:
    tokens: tuple[str, ...]
    """The text in pieces. The last may be cut by a stop string, which is never part of it."""
    finish: Finish
    stop_reason: str | None
    """The stop string that ended it."""

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    @property
    def steps(self) -> int:
        """One a token; an answer without any still takes one, to say that it ended."""
        return max(1, len(self.tokens))

    def after(self, steps: int) -> "Generation":
        """What there is of it after ``steps``: an aborted one, unless that was all of them."""
        if steps >= self.steps:
            return self
        return Generation(tokens=self.tokens[:steps], finish="abort", stop_reason=None)


def count(text: str) -> int:
    """Tokens of a prompt; a beginning-of-text token is counted, so nothing is ever empty."""
    return 1 + sum(1 for _ in _TOKEN.finditer(text))


def generate(prompt: str, limits: Limits) -> Generation:
    tokens, ended = _take(prompt, limits)
    text = "".join(tokens)
    hits = [(at, stop) for stop in limits.stop if (at := text.find(stop)) >= 0]
    if not hits:
        return Generation(tokens=tokens, finish="stop" if ended else "length", stop_reason=None)
    at, stop = min(hits)
    return Generation(tokens=_cut(tokens, at), finish="stop", stop_reason=stop)


def _take(prompt: str, limits: Limits) -> tuple[tuple[str, ...], bool]:
    """At most ``max_tokens`` of the echo, and whether it ended by itself."""
    once = _TOKEN.findall(f"{PREFACE} {prompt}")
    wanted = limits.max_tokens if limits.ignore_end else max(len(once), limits.min_tokens)
    taken = tuple(itertools.islice(_repeat(once), min(wanted, limits.max_tokens)))
    return taken, len(taken) == wanted and not limits.ignore_end


def _repeat(once: list[str]) -> Iterator[str]:
    yield from once
    again = [f" {once[0]}", *once[1:]]
    while True:
        yield from again


def _cut(tokens: tuple[str, ...], length: int) -> tuple[str, ...]:
    """The first ``length`` characters, still in tokens."""
    ends = itertools.accumulate(len(token) for token in tokens)
    kept = (
        token[: max(0, length - (end - len(token)))]
        for token, end in zip(tokens, ends, strict=True)
    )
    return tuple(piece for piece in kept if piece)
