"""Expected answers that leave fields out."""

from __future__ import annotations

from typing import Any

import pytest

from local.comparing import Difference, differences

CHILD = {"kind": "Service", "metadata": {"name": "m"}, "spec": {"ports": [{"port": 80}]}}
OTHER = {"kind": "Service", "metadata": {"name": "m-scaler"}}


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
        ({"a": 0}, {"a": 0.0}),
        ([{"kind": "Service", "metadata": {"name": "m"}}, OTHER], [CHILD, OTHER]),
        ([{}, {}], [CHILD, OTHER]),
        ([], []),
    ],
)
def test_what_is_left_out_may_be_anything(expected: Any, found: Any) -> None:
    assert list(differences(expected, found)) == []


@pytest.mark.parametrize(
    ("expected", "found", "path", "shown"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b", ("1", "2")),
        ({"a": 1}, {}, "a", ("1", "nothing")),
        ({"a": True}, {"a": 1}, "a", ("true", "1")),
        ({"a": "1"}, {"a": 1}, "a", ("'1'", "1")),
        ({"a": None}, {"a": ""}, "a", ("null", "''")),
        ({"a": {}}, {"a": []}, "a", ("{}", "[]")),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]", ("2", "nothing")),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]", ("nothing", "2")),
        ({"a": []}, {"a": [{}]}, "a[0]", ("nothing", "{}")),
    ],
)
def test_a_difference_names_its_place(
    expected: Any, found: Any, path: str, shown: tuple[str, str]
) -> None:
    assert list(differences(expected, found)) == [Difference(path, *shown)]


def test_a_missing_child_does_not_shift_the_others() -> None:
    (only,) = differences({"children": [CHILD, OTHER]}, {"children": [OTHER]})
    assert only.path == "children[Service m]"
    assert only.found == "nothing"


def test_a_child_that_is_not_expected_is_named() -> None:
    (only,) = differences({"children": [OTHER]}, {"children": [OTHER, CHILD]})
    assert (only.path, only.expected) == ("children[Service m]", "nothing")


def test_the_order_of_named_items_counts() -> None:
    (only,) = differences([CHILD, OTHER], [OTHER, CHILD])
    assert only.expected == "in the order Service m, Service m-scaler"


def test_conditions_and_containers_are_told_by_name() -> None:
    expected = {"conditions": [{"type": "Ready", "status": "True"}], "env": [{"name": "A"}]}
    found = {"conditions": [{"type": "Ready", "status": "False"}], "env": [{"name": "B"}]}
    paths = [difference.path for difference in differences(expected, found)]
    assert paths == ["conditions[Ready].status", "env[A]", "env[B]"]
