"""The engine's arguments: templates in, and the model names that the engine will answer to out."""

import re
from collections.abc import Mapping, Sequence

from hooks.api.fields import shortened

_TEMPLATE = re.compile(r"\{\{(.*?)(\}\}|$)", re.DOTALL)

# What may stand in double braces.
TEMPLATES = (".Model.Path", ".Service.Name", ".Service.Namespace")

# vLLM takes names from a LoRA request or from a file too: then only the engine knows them all.
_NAMES_UNKNOWN = ("--enable-lora", "--lora-modules", "--config")


class TemplateError(ValueError):
    """Double braces that are none of the templates; the message quotes them."""


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its templates replaced. Raises TemplateError.

    Closing braces alone are left as they are: JSON arguments end in them.
    """

    def replace(match: re.Match[str]) -> str:
        value = values.get(match[1].strip())
        if value is None or not match[2]:
            known = ", ".join(values)
            within = "" if match[0] == text else f" in {shortened(text)!r}"
            raise TemplateError(
                f"{shortened(match[0])!r}{within} is no template; expected one of {known}"
            )
        return value

    return _TEMPLATE.sub(replace, text)


def check(text: str) -> None:
    """Raises TemplateError where ``text`` cannot be filled."""
    fill(text, dict.fromkeys(TEMPLATES, ""))


def served_names(arguments: Sequence[str]) -> tuple[str, ...]:
    """The model names that an engine started with ``arguments`` answers to; empty: any may be.

    Follows vLLM: every value of the last ``--served-model-name``, else the model. A name that
    refers to an environment variable is not known here.
    """
    flags = [(_flag(argument), index) for index, argument in enumerate(arguments)]
    if any(flag in _NAMES_UNKNOWN for flag, _ in flags):
        return ()
    names = _model(arguments)
    for flag, index in flags:
        if flag == "--model":
            names = _values(arguments, index)[:1]
    for flag, index in flags:
        if flag == "--served-model-name":
            names = _values(arguments, index)
    return () if any("$(" in name for name in names) else tuple(dict.fromkeys(names))


def _flag(argument: str) -> str:
    """The flag's name; vLLM reads underscores as dashes."""
    name = argument.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else ""


def _values(arguments: Sequence[str], index: int) -> tuple[str, ...]:
    """The values of the flag at ``index``: behind its equals sign, or all up to the next flag."""
    _, equals, value = arguments[index].partition("=")
    if equals:
        return (value,)
    values = []
    for argument in arguments[index + 1 :]:
        if argument.startswith("-"):
            break
        values.append(argument)
    return tuple(values)


def _model(arguments: Sequence[str]) -> tuple[str, ...]:
    """The model as first argument, behind ``vllm serve`` or ``serve`` where these stand first."""
    rest = list(arguments)
    for word in ("vllm", "serve"):
        if rest[:1] == [word]:
            del rest[0]
    return tuple(rest[:1]) if rest and not rest[0].startswith("-") else ()
