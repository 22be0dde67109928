"""The three-way merge keeps what others wrote and removes only what the hook had asked for."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cluster.standin import merge, objects
from tests.cluster.standin.objects import Obj


def child(spec: Obj | None = None, **meta: Any) -> Obj:
    obj: Obj = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", **meta}}
    return obj if spec is None else {**obj, "spec": spec}


def applied(wanted: Obj, **seen_in_cluster: Any) -> Obj:
    """What the cluster holds after ``wanted`` was created and others added to its spec."""
    out = merge.with_last_applied(wanted, wanted)
    out["metadata"] |= {"uid": "u1", "resourceVersion": "7", "generation": 1}
    out["spec"] = {**out.get("spec", {}), **seen_in_cluster}
    return out


def spec_after(observed: Obj, wanted: Obj) -> Obj:
    return dict(merge.apply(observed, wanted)["spec"])


def test_an_unchanged_wish_changes_nothing() -> None:
    wanted = child({"replicas": 1, "ports": [{"name": "http", "port": 80}]})
    observed = applied(wanted, defaulted="by the server")
    assert objects.same(merge.apply(observed, wanted), observed)


def test_fields_of_others_stay() -> None:
    observed = applied(child({"ours": 1}), theirs={"deep": [1, 2]})
    assert spec_after(observed, child({"ours": 2})) == {"ours": 2, "theirs": {"deep": [1, 2]}}


def test_a_field_that_is_no_longer_wanted_goes() -> None:
    observed = applied(child({"replicas": 3, "image": "a"}))
    assert spec_after(observed, child({"image": "a"})) == {"image": "a"}


def test_a_field_that_another_changed_goes_back() -> None:
    observed = applied(child({"replicas": 3}), replicas=5)
    assert spec_after(observed, child({"replicas": 3})) == {"replicas": 3}


def test_a_foreign_object_loses_nothing_to_its_first_apply() -> None:
    observed = child({"theirs": 1}, resourceVersion="7")
    assert spec_after(observed, child({"ours": 2})) == {"theirs": 1, "ours": 2}


def test_neither_side_is_changed_in_place() -> None:
    wanted = child({"list": [{"name": "a", "value": "2"}]})
    observed = applied(child({"list": [{"name": "a", "value": "1"}]}))
    before = copy.deepcopy((observed, wanted))
    merge.apply(observed, wanted)
    assert (observed, wanted) == before


@pytest.mark.parametrize("key", merge.MERGE_KEYS)
def test_items_with_a_common_key_are_merged_one_by_one(key: str) -> None:
    observed = applied(
        child({"list": [{key: "a", "ours": 1}, {key: "b"}]}),
        list=[{key: "theirs"}, {key: "a", "ours": 1, "defaulted": True}, {key: "b"}],
    )
    wanted = child({"list": [{key: "c"}, {key: "a", "ours": 2}]})
    assert spec_after(observed, wanted) == {
        "list": [{key: "theirs"}, {key: "a", "ours": 2, "defaulted": True}, {key: "c"}]
    }


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(["x", "y"], id="scalars"),
        pytest.param([{"key": "a", "operator": "Exists"}], id="objects without a merge key"),
        pytest.param([{"name": "a"}, {"other": "b"}], id="a key that one item lacks"),
        pytest.param([], id="empty on both sides"),
    ],
)
def test_other_lists_are_replaced_whole(items: list[Any]) -> None:
    observed = applied(child({"list": ["old"]}))
    assert spec_after(observed, child({"list": items})) == {"list": items}


def test_a_key_earlier_in_the_order_wins() -> None:
    observed = applied(child({"ports": [{"containerPort": 1, "name": "a"}]}))
    wanted = child({"ports": [{"containerPort": 1, "name": "b"}]})
    assert spec_after(observed, wanted) == {"ports": [{"containerPort": 1, "name": "b"}]}


def test_what_the_server_owns_is_never_written() -> None:
    observed = {**applied(child({"a": 1})), "status": {"ready": 1}}
    wanted = {**child({"a": 1}, uid="forged", generation=9), "status": {"ready": 5}}
    after = merge.apply(observed, wanted)
    assert after["status"] == {"ready": 1}
    assert after["metadata"]["uid"] == "u1"
    assert after["metadata"]["generation"] == 1


def test_a_null_that_the_server_drops_is_written_again_at_every_sync() -> None:
    """The real program compares literally too; this is why the hooks must emit no nulls."""
    wanted = child({"a": None})
    observed = applied(wanted)
    del observed["spec"]["a"]
    assert not objects.same(merge.apply(observed, wanted), observed)


def test_the_annotation_holds_the_wish_as_go_writes_it() -> None:
    wanted = child({"b": "<&>", "a": [1, True]}, annotations={merge.LAST_APPLIED: "stale"})
    text = objects.annotations_of(merge.with_last_applied(wanted, wanted))[merge.LAST_APPLIED]
    assert text == (
        '{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},'
        '"spec":{"a":[1,true],"b":"\\u003c\\u0026\\u003e"}}'
    )
    assert json.loads(text) == child({"b": "<&>", "a": [1, True]})


_values = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.lists(
            st.builds(
                lambda name, value: {"name": name, "v": value}, st.sampled_from("xyz"), inner
            ),
            max_size=3,
            unique_by=lambda item: str(item["name"]),
        )
    ),
    max_leaves=12,
)
_specs = st.dictionaries(st.sampled_from("abc"), _values, max_size=3)


# A machine busy with other work draws slowly; that is no news about the merge.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=_specs, seen=_specs, wanted=_specs)
def test_applying_twice_is_applying_once(before: Obj, seen: Obj, wanted: Obj) -> None:
    once = merge.apply(applied(child(before), **seen), child(wanted))
    assert objects.same(merge.apply(once, child(wanted)), once)
