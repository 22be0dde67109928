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


def child(uid: str | None, *, label: str | None, **meta: Any) -> Obj:
    """A Deployment of a controller's uid, if of any, with the label of a parent's uid."""
    refs = [{**OWNER, "uid": uid}] if uid else []
    labels = {objects.UID_LABEL: label} if label else {}
    made = {**deployment(1)["metadata"], "namespace": "ns", "ownerReferences": refs}
    return {**deployment(1), "metadata": {**made, "labels": labels, **meta}}


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("seen_child", "expected"),
    [
        pytest.param(child("parent", label="parent"), plan.Claim.OURS, id="ours"),
        pytest.param(
            child("parent", label="parent", **DELETED), plan.Claim.OURS, id="ours, ending"
        ),
        pytest.param(child(None, label="parent"), plan.Claim.ADOPT, id="an orphan of ours"),
        pytest.param(
            child(None, label="parent", **DELETED), plan.Claim.NOT_OURS, id="an orphan, ending"
        ),
        pytest.param(child(None, label=None), plan.Claim.NOT_OURS, id="a stranger"),
        pytest.param(child(None, label="other"), plan.Claim.NOT_OURS, id="another one's orphan"),
        pytest.param(child("other", label="parent"), plan.Claim.NOT_OURS, id="another one's"),
        pytest.param(child("parent", label=None), plan.Claim.RELEASE, id="ours without its label"),
        pytest.param(
            child(None, label="parent", namespace="elsewhere"),
            plan.Claim.NOT_OURS,
            id="an orphan in another namespace",
        ),
    ],
)
def test_whose_a_child_is(seen_child: Obj, expected: plan.Claim) -> None:
    assert plan.claim(PARENT, seen_child) is expected


def test_a_parent_that_ends_changes_no_owner() -> None:
    ending = {**PARENT, "metadata": {**PARENT["metadata"], **DELETED}}
    assert plan.claim(ending, child("parent", label="parent")) is plan.Claim.OURS
    assert plan.claim(ending, child("parent", label=None)) is plan.Claim.NOT_OURS
    assert plan.claim(ending, child(None, label="parent")) is plan.Claim.NOT_OURS


def test_children_get_the_label_that_their_parent_selects_by() -> None:
    labels = plan.selected(deployment(1), PARENT)["metadata"]["labels"]
    assert labels == {objects.UID_LABEL: "parent"}


def test_a_child_with_the_label_of_another_parent_is_refused() -> None:
    stray = deployment(1)
    stray["metadata"]["labels"] = {objects.UID_LABEL: "other"}
    with pytest.raises(objects.BadController, match="m-backend"):
        plan.selected(stray, PARENT)


WRITTEN: Obj = {
    **PARENT,
    "metadata": {**PARENT["metadata"], "labels": {"a": "1"}, "annotations": {"b": "1"}},
    "status": {"phase": "Ready"},
}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing said"),
        pytest.param(
            {"labels": {"a": "1"}, "annotations": {"b": "1"}, "status": {"phase": "Ready"}},
            id="all as it is",
        ),
        pytest.param({"labels": {"c": None}}, id="removal of what is not there"),
    ],
)
def test_a_decorators_answer_that_changes_nothing_writes_nothing(answer: Obj) -> None:
    assert decorated(answer) is None


def test_a_decorator_labels_its_parent_and_leaves_the_status_alone() -> None:
    after = decorated({"labels": {"c": "2"}, "annotations": {"b": None}})
    assert after is not None
    assert not after.status_changed
    assert after.parent["metadata"]["labels"] == {"a": "1", "c": "2"}
    assert after.parent["metadata"]["annotations"] == {}
    assert after.parent["status"] == WRITTEN["status"]


def test_a_decorators_status_replaces_the_whole_one() -> None:
    after = decorated({"status": {"conditions": []}})
    assert after is not None
    assert after.status_changed
    assert after.parent["status"] == {"conditions": []}
    assert after.parent["metadata"] == WRITTEN["metadata"]


def decorated(answer: Obj) -> plan.Decoration | None:
    none: Obj = {"labels": {}, "annotations": {}, "status": None}
    return plan.decoration(WRITTEN, **{**none, **answer})
