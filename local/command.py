"""The engine's command line on this machine: the runtime's annotation and rendered arguments."""

import json
import re
from collections.abc import Mapping, Sequence

# Kubernetes' own syntax in command and args: $(VAR), and $$(VAR) for the text itself.
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


def parse(text: str) -> list[str]:
    """The annotation's words. ValueError says in words what is wrong with it."""
    expected = 'expected a JSON array of strings like ["noctaya-echo"]'
    try:
        words = json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f"not JSON ({e.msg} at character {e.pos}): {expected}") from e
    except (RecursionError, ValueError) as e:
        raise ValueError(f"not JSON that can be read ({e}): {expected}") from e
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"found {text!r}: {expected}")
    if not words or not words[0]:
        raise ValueError(f"names no program: {expected}")
    for word in words:
        if "\0" in word or any("\ud800" <= one <= "\udfff" for one in word):
            raise ValueError(f"{word!r} holds a NUL or half a character, which no program can get")
    return words


def expand(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """As the kubelet expands: a variable that is not set stays as it is written."""

    def value(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        return variables.get(match.group(1), match.group())

    return [_REFERENCE.sub(value, word) for word in words]
