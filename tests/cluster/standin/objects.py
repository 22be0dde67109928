"""Kubernetes objects as plain JSON values, and the questions asked of them. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Obj = dict[str, Any]
"""One API object, as decoded from JSON."""

UID_LABEL = "controller-uid"
"""The label that ``generateSelector`` puts on children, and selects them by."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class BadController(Exception):
    """A controller resource that cannot run as it is written; the message says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resource:
    """One kind that the API server serves, as discovery describes it."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool
    has_status: bool

    @property
    def group_key(self) -> str:
        """How a hook request names the kind, such as ``Deployment.apps/v1``."""
        return f"{self.kind}.{self.api_version}"


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    """Namespace and name of an object; a cluster-scoped one has the namespace ``""``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """The v2 hook form: ``namespace/name``, or the name alone for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Obj) -> Key:
    """The object's namespace and name."""
    meta = obj["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


def group_key_of(obj: Obj) -> str:
    """The object's kind as a hook request names it."""
    return f"{obj['kind']}.{obj['apiVersion']}"


def labels_of(obj: Obj) -> dict[str, str]:
    """The object's labels; empty where it has none."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """The object's annotations; empty where it has none."""
    return obj["metadata"].get("annotations") or {}


def deleting(obj: Obj) -> bool:
    """Whether the API server has begun to delete the object."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def uid_of(obj: Obj) -> str:
    """The object's uid, as text."""
    return str(obj["metadata"]["uid"])


def controller_ref(obj: Obj) -> Obj | None:
    """The owner reference that says who controls the object, if any does."""
    for ref in obj["metadata"].get("ownerReferences") or []:
        if ref.get("controller"):
            return dict(ref)
    return None


def controlled_by(obj: Obj, parent: Obj) -> bool:
    """Whether the object's controller is exactly this parent (by uid, not by name)."""
    ref = controller_ref(obj)
    return ref is not None and ref["uid"] == uid_of(parent)


def make_controller_ref(parent: Obj) -> Obj:
    """The owner reference that children of ``parent`` carry."""
    return {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": parent["metadata"]["name"],
        "uid": uid_of(parent),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def same(left: object, right: object) -> bool:
    """Literal JSON equality: ``True`` is not ``1``, and ``1`` is not ``1.0``."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def matches_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a LabelSelector; an empty one matches everything."""
    wanted = (selector.get("matchLabels") or {}).items()
    if any(labels.get(name) != value for name, value in wanted):
        return False
    return all(_satisfies(e, labels) for e in selector.get("matchExpressions") or [])


def _satisfies(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    present = expression["key"] in labels
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "In":
            return present and value in expression["values"]
        case "NotIn":
            return not present or value not in expression["values"]
        case other:
            raise BadController(f"unknown label selector operator {other!r}")


def uniform_map(kinds: Iterable[str], objects: Iterable[Obj]) -> dict[str, dict[str, Obj]]:
    """The v2 shape of children and related objects: every kind has an entry, if an empty one."""
    out: dict[str, dict[str, Obj]] = {kind: {} for kind in kinds}
    for obj in objects:
        out.setdefault(group_key_of(obj), {})[str(key_of(obj))] = obj
    return out


def duration_seconds(text: str) -> float:
    """Seconds in a Go duration such as ``10s`` or ``1m30s``."""
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(p.group(0) for p in parts) != text:
        raise BadController(f"{text!r} is not a duration: expected a form such as 10s or 1m30s")
    return sum(float(p.group(1)) * _UNIT_SECONDS[p.group(2)] for p in parts)
