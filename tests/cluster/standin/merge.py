"""Metacontroller's dynamic apply: a three-way merge of plain JSON values. Pure.

The three sides are what the hook wanted last time (kept in an annotation on the child), what it
wants now, and what is observed. What was wanted and no longer is goes away; what is wanted is
set; everything else, which others wrote, stays.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.cluster.standin import objects
from tests.cluster.standin.objects import Obj

LAST_APPLIED = "metacontroller.k8s.io/last-applied-configuration"

# A list whose items all have one of these is merged item by item, by the first that all have.
# Every other list is replaced whole.
MERGE_KEYS = ("containerPort", "port", "mountPath", "name", "uid", "ip", "path")

# Belongs to the API server: an answer that names one of these changes nothing.
SYSTEM_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


def apply(observed: Obj, wanted: Obj) -> Obj:
    """The object to write so that ``observed`` becomes what is wanted; neither is changed.

    Equal to ``observed`` (see `objects.same`) when there is nothing to write.
    """
    merged: Obj = _merge_maps(observed, last_applied(observed), without_bookkeeping(wanted))
    for field in SYSTEM_METADATA:
        _restore(merged["metadata"], observed["metadata"], field)
    _restore(merged, observed, "status")
    return with_last_applied(merged, wanted)


def last_applied(observed: Obj) -> Obj:
    """What the hook wanted last time; empty for an object that was never applied."""
    text = objects.annotations_of(observed).get(LAST_APPLIED)
    return dict(json.loads(text)) if text else {}


def with_last_applied(obj: Obj, wanted: Obj) -> Obj:
    """A copy of ``obj`` that remembers what is wanted of it."""
    out = copy.deepcopy(obj)
    meta = out["metadata"]
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        LAST_APPLIED: _go_json(without_bookkeeping(wanted)),
    }
    return out


def without_bookkeeping(wanted: Obj) -> Obj:
    """The answer without an annotation that only Metacontroller itself may set."""
    out = copy.deepcopy(wanted)
    annotations = out["metadata"].get("annotations") or {}
    if annotations.pop(LAST_APPLIED, None) is not None and not annotations:
        del out["metadata"]["annotations"]
    return out


def _go_json(value: Obj) -> str:
    """Compact JSON as Go writes it, so that a change of program between tests rewrites nothing."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _restore(into: Obj, observed: Obj, field: str) -> None:
    if field in observed:
        into[field] = copy.deepcopy(observed[field])
    else:
        into.pop(field, None)


def _merge(observed: Any, before: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict) and isinstance(observed, dict):
        return _merge_maps(observed, before if isinstance(before, dict) else {}, wanted)
    if isinstance(wanted, list) and isinstance(observed, list):
        return _merge_lists(observed, before if isinstance(before, list) else [], wanted)
    return copy.deepcopy(wanted)


def _merge_maps(observed: Obj, before: Obj, wanted: Obj) -> Obj:
    out = {
        name: copy.deepcopy(value)
        for name, value in observed.items()
        if name in wanted or name not in before
    }
    for name, value in wanted.items():
        if name in observed:
            out[name] = _merge(observed[name], before.get(name), value)
        else:
            out[name] = copy.deepcopy(value)
    return out


def _merge_lists(observed: list[Any], before: list[Any], wanted: list[Any]) -> list[Any]:
    key = _merge_key([*observed, *before, *wanted])
    if key is None:
        return copy.deepcopy(wanted)
    merged = _merge_maps(_by(key, observed), _by(key, before), _by(key, wanted))
    return list(merged.values())


def _merge_key(items: list[Any]) -> str | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in MERGE_KEYS if all(key in item for item in items)), None)


def _by(key: str, items: list[Any]) -> Obj:
    """Items by their merge key as text, in order; of two with one key the later counts."""
    return {str(item[key]): item for item in items}
