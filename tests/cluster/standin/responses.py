"""Hook answers, parsed as strictly as v2 hooks are: unknown and repeated fields are errors. Pure.

What is absent reads as empty, as in the real program: no ``children`` means that every child is
to go. Saying so is the hook's duty, and forgiving it here would hide the mistake.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tests.cluster.standin.objects import Obj


class BadResponse(Exception):
    """A hook's answer that cannot be used; nothing is changed because of it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompositeResponse:
    """Answer of a Composite's sync: all children, and the parent's whole status."""

    status: Obj | None
    children: list[Obj]
    resync_after_seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecoratorResponse:
    """Answer of a Decorator's sync: all attachments, and what to set on the parent.

    A label or annotation of ``None`` is removed; a status of ``None`` is left alone.
    """

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    status: Obj | None
    attachments: list[Obj]
    resync_after_seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelatedRule:
    """One rule of a customize answer: which objects of a kind the hook wants to see."""

    api_version: str
    resource: str
    namespace: str
    names: tuple[str, ...]
    label_selector: Obj | None


def parse_composite(body: bytes) -> CompositeResponse:
    """Parse the answer of a Composite's sync hook."""
    top = _object(body, {"status", "children", "resyncAfterSeconds"})
    return CompositeResponse(
        status=_optional_map(top, "status"),
        children=_objects(top, "children"),
        resync_after_seconds=_seconds(top),
    )


def parse_decorator(body: bytes) -> DecoratorResponse:
    """Parse the answer of a Decorator's sync hook."""
    top = _object(body, {"labels", "annotations", "status", "attachments", "resyncAfterSeconds"})
    return DecoratorResponse(
        labels=_texts(top, "labels"),
        annotations=_texts(top, "annotations"),
        status=_optional_map(top, "status"),
        attachments=_objects(top, "attachments"),
        resync_after_seconds=_seconds(top),
    )


def parse_customize(body: bytes) -> list[RelatedRule]:
    """Parse the answer of a customize hook."""
    top = _object(body, {"relatedResources"})
    rules = top.get("relatedResources") or []
    if not isinstance(rules, list):
        raise BadResponse(f"relatedResources is {rules!r}: expected a list of rules")
    return [_rule(rule) for rule in rules]


def _rule(rule: Any) -> RelatedRule:
    fields = {"apiVersion", "resource", "namespace", "names", "labelSelector"}
    if not isinstance(rule, dict):
        raise BadResponse(f"a related rule is {rule!r}: expected an object")
    _refuse_unknown(rule, fields, where="related rule")
    if rule.get("names") and rule.get("labelSelector") is not None:
        raise BadResponse(f"related rule for {rule['resource']}: names and labelSelector together")
    return RelatedRule(
        api_version=rule["apiVersion"],
        resource=rule["resource"],
        namespace=rule.get("namespace") or "",
        names=tuple(rule.get("names") or ()),
        label_selector=rule.get("labelSelector"),
    )


def _object(body: bytes, fields: set[str]) -> Obj:
    try:
        top = json.loads(body, object_pairs_hook=_no_repeats)
    except ValueError as e:
        raise BadResponse(f"not JSON: {e}") from e
    if not isinstance(top, dict):
        raise BadResponse(f"the answer is a {type(top).__name__}: expected an object")
    _refuse_unknown(top, fields, where="the answer")
    return top


def _no_repeats(pairs: list[tuple[str, Any]]) -> Obj:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise BadResponse(f"repeated field(s) {', '.join(repeated)}")
    return out


def _refuse_unknown(value: Obj, fields: set[str], *, where: str) -> None:
    unknown = sorted(set(value) - fields)
    if unknown:
        raise BadResponse(f"unknown field(s) {', '.join(unknown)} in {where}")


def _optional_map(top: Obj, name: str) -> Obj | None:
    value = top.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadResponse(f"{name} is {value!r}: expected an object")
    return value


def _objects(top: Obj, name: str) -> list[Obj]:
    values = top.get(name) or []
    if not isinstance(values, list):
        raise BadResponse(f"{name} is {values!r}: expected a list of objects")
    for value in values:
        named = isinstance(value, dict) and (value.get("metadata") or {}).get("name")
        if not (named and value.get("apiVersion") and value.get("kind")):
            raise BadResponse(f"one of {name} lacks apiVersion, kind or metadata.name: {value!r}")
    return values


def _texts(top: Obj, name: str) -> dict[str, str | None]:
    values = _optional_map(top, name) or {}
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            raise BadResponse(f"{name}[{key}] is {value!r}: expected text or null")
    return values


def _seconds(top: Obj) -> float:
    value = top.get("resyncAfterSeconds") or 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadResponse(f"resyncAfterSeconds is {value!r}: expected a number")
    return float(value)
