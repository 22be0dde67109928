"""A hook request without what its users would not show: the form in which it may be passed on.

Removed are the literal values of environment variables, wherever an object holds some, and the
annotations that others than us have set. What a request is answered with stays the same but for
those values: hashes that are made from them are replaced by those that the answer to the redacted
request will be made with.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import carry, names, render
from hooks.llmservice.plan import Plan
from hooks.llmservice.resolve import resolve
from hooks.settings import Settings

REMOVED = "(removed)"

_OURS = "serving.noctaya.io/"
_HASHES = (names.TEMPLATE_HASH, names.SPEC_HASH)
_TEMPLATE = re.compile(r"(\{\{.*?(?:\}\}|$))", re.DOTALL)

# Shorter ones are in too many words to be told apart from them.
_SHORTEST_QUOTED = 4

# Of a literal, in characters: a message may cut it short, or spell its line ends otherwise.
_SHORTEST_PART = 12


def redact(body: Object, settings: Settings) -> Object:
    """``body``, a hook request, as it may be shown to others."""
    literals = sorted(set(_literals(body)), key=len, reverse=True)
    quoted = [literal for literal in literals if len(literal) >= _SHORTEST_QUOTED]
    redacted: Object = _redact(body, quoted)
    text = objects.compact(redacted)
    before, after = _hashes(body, settings), _hashes(redacted, settings)
    for old, new in zip(before, after, strict=False):
        text = text.replace(old, new)
    loaded: Object = json.loads(text)
    return loaded


def _literals(value: Any) -> Iterator[str]:
    """The literal values of every environment within ``value``."""
    if isinstance(value, list):
        for item in value:
            yield from _literals(item)
    elif isinstance(value, dict):
        for entry in objects.items(value, "env"):
            yield objects.text(entry, "value")
        for item in value.values():
            yield from _literals(item)


def _redact(value: Any, quoted: list[str]) -> Any:
    if isinstance(value, list):
        return [_redact(item, quoted) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _redact(item, quoted) for key, item in value.items()}
    if isinstance(value.get("env"), list):
        changed["env"] = [_variable(entry, quoted) for entry in value["env"]]
    if isinstance(value.get("annotations"), dict):
        changed["annotations"] = _annotations(value["annotations"], quoted)
    if isinstance(value.get("managedFields"), list):
        changed["managedFields"] = [_manager(entry) for entry in value["managedFields"]]
    if isinstance(value.get("message"), str):
        changed["message"] = _without(value["message"], quoted)
    return changed


def _variable(entry: Any, quoted: list[str]) -> Any:
    redacted = _redact(entry, quoted)
    if isinstance(entry, dict) and "value" in entry:
        redacted["value"] = _literal(entry["value"])
    return redacted


def _literal(value: Any) -> Any:
    """The text without its words; its templates stay, since a mistake in one is a status."""
    if not isinstance(value, str):
        return REMOVED
    parts = _TEMPLATE.split(value)
    return "".join(_template(part) if part.startswith("{{") else part and REMOVED for part in parts)


def _template(text: str) -> str:
    inner = text.removeprefix("{{").removesuffix("}}")
    if re.fullmatch(r"\s*(\.[A-Za-z]+)+\s*", inner):
        return text
    return text.replace(inner, REMOVED) if inner else text


def _annotations(annotations: Object, quoted: list[str]) -> Object:
    kept = {name: value for name, value in annotations.items() if name.startswith(_OURS)}
    if objects.LAST_APPLIED in annotations:
        remembered = objects.last_applied({"metadata": {"annotations": annotations}})
        kept[objects.LAST_APPLIED] = (
            REMOVED if remembered is None else objects.compact(_remembered(remembered, quoted))
        )
    return kept


def _remembered(applied: Object, quoted: list[str]) -> Object:
    """What we applied ourselves: all annotations in it are ours."""
    redacted: Object = _redact(applied, quoted)
    metadata = objects.mapping(applied, "metadata")
    if "annotations" in metadata:
        redacted["metadata"]["annotations"] = metadata["annotations"]
    template = objects.mapping(applied, "spec", "template", "metadata")
    if "annotations" in template:
        redacted["spec"]["template"]["metadata"]["annotations"] = template["annotations"]
    return redacted


def _manager(entry: Any) -> Any:
    """Who wrote how; the fields that they wrote name annotations."""
    if not isinstance(entry, dict):
        return entry
    return {key: value for key, value in entry.items() if key != "fieldsV1"}


def _without(message: str, quoted: list[str]) -> str:
    for literal in quoted:
        message = message.replace(literal, REMOVED)
    for literal in quoted:
        message = _without_parts(message, literal)
    return message


def _without_parts(message: str, literal: str) -> str:
    kept, at = [], 0
    while at < len(message):
        end = at + _SHORTEST_PART
        if end > len(message) or message[at:end] not in literal:
            kept.append(message[at])
            at += 1
            continue
        while end < len(message) and message[at : end + 1] in literal:
            end += 1
        kept.append(REMOVED)
        at = end
    return "".join(kept)


def _hashes(body: Object, settings: Settings) -> list[str]:
    """The hashes in the children that would be rendered, in the order of the children."""
    try:
        request = wire.load(wire.CompositeRequest, body)
    except wire.RequestError:
        return []
    outcome = resolve(request, settings)
    if not isinstance(outcome, Plan):
        return []
    return list(_of(render.children(carry.fetcher_image(outcome, request))))


def _of(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _HASHES and isinstance(item, str):
                yield item
            yield from _of(item)
