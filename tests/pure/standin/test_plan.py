"""Which writes an answer asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.standin import merge, objects, plan
from tests.cluster.standin.objects import Obj

PARENT: Obj = {
    "apiVersion": "serving.noctaya.io/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "m", "namespace": "ns", "uid": "parent"},
}
DEPLOYMENT = "Deployment.apps/v1"
OWNER = {
    "apiVersion": "serving.noctaya.io/v1alpha1",
    "kind": "LLMService",
    "name": "m",
    "uid": "parent",
    "controller": True,
    "blockOwnerDeletion": True,
}


def deployment(replicas: int, name: str = "m-backend") -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }


def seen(obj: Obj, **meta: Any) -> Obj:
    out = merge.with_last_applied(plan.in_namespace_of(PARENT, obj), obj)
    out["metadata"] |= {"uid": "child", "resourceVersion": "7", **meta}
    return out


def planned(
    observed: list[Obj], wanted: list[Obj], method: str = plan.IN_PLACE
) -> list[plan.Action]:
    return plan.children(PARENT, observed, wanted, {DEPLOYMENT: method})


def test_a_missing_child_is_created_with_owner_namespace_and_memory() -> None:
    [action] = planned([], [deployment(1)])
    assert isinstance(action, plan.Create)
    meta = action.obj["metadata"]
    assert (meta["namespace"], meta["ownerReferences"]) == ("ns", [OWNER])
    assert merge.last_applied(action.obj) == plan.in_namespace_of(PARENT, deployment(1))


def test_a_child_that_is_not_returned_is_deleted_even_on_an_empty_answer() -> None:
    observed = seen(deployment(1))
    assert planned([observed], []) == [plan.Delete(obj=observed)]


def test_a_child_under_deletion_is_neither_deleted_again_nor_updated() -> None:
    observed = seen(deployment(1), deletionTimestamp="2026-01-01T00:00:00Z")
    assert planned([observed], []) == []
    assert planned([observed], [deployment(2)]) == []


def test_a_changed_child_is_updated_in_place_at_the_version_that_was_seen() -> None:
    [action] = planned([seen(plan.in_namespace_of(PARENT, deployment(1)))], [deployment(2)])
    assert isinstance(action, plan.Update)
    assert action.obj["spec"] == {"replicas": 2}
    assert action.obj["metadata"]["resourceVersion"] == "7"


def test_an_unchanged_child_is_not_written() -> None:
    observed = seen(plan.in_namespace_of(PARENT, deployment(1)))
    assert planned([observed], [deployment(1)]) == []


def test_without_in_place_a_child_is_never_updated() -> None:
    assert planned([seen(deployment(1))], [deployment(2)], plan.ON_DELETE) == []


def test_deletions_come_before_creations() -> None:
    kinds = [type(a) for a in planned([seen(deployment(1))], [deployment(1, name="other")])]
    assert kinds == [plan.Delete, plan.Create]


def test_a_kind_that_the_controller_lacks_is_refused() -> None:
    stray = {**deployment(1), "kind": "StatefulSet"}
    with pytest.raises(objects.BadController, match="StatefulSet"):
        planned([], [stray])


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param({"a": "1"}, None, id="the same value"),
        pytest.param({"a": "2"}, {"a": "2", "b": "1"}, id="changed"),
        pytest.param({"b": None}, {"a": "1"}, id="removed by null"),
        pytest.param({"c": None}, None, id="null for one that is absent"),
    ],
)
def test_a_decorators_labels_and_annotations(
    answer: dict[str, str | None], after: dict[str, str] | None
) -> None:
    assert plan.changed_texts({"a": "1", "b": "1"}, answer) == after
