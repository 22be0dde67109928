"""Selectors, related rules, durations and Retry-After."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.standin import hook, objects, related
from tests.cluster.standin.responses import RelatedRule

IN = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}
NOT_IN = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        pytest.param({}, {}, True, id="empty selects all"),
        pytest.param({"matchLabels": {"app": "a"}}, {"app": "a", "x": "y"}, True, id="labels"),
        pytest.param({"matchLabels": {"app": "a"}}, {"app": "b"}, False, id="another value"),
        pytest.param(IN, {"app": "b"}, True, id="in"),
        pytest.param(IN, {}, False, id="in, absent"),
        pytest.param(NOT_IN, {}, True, id="not in, absent"),
        pytest.param(NOT_IN, {"app": "a"}, False, id="not in"),
    ],
)
def test_label_selectors(selector: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    assert objects.matches_selector(selector, labels) is matches


def pod(namespace: str, name: str, **labels: str) -> objects.Obj:
    return {"metadata": {"namespace": namespace, "name": name, "labels": labels}}


def rule(**fields: Any) -> RelatedRule:
    defaults: dict[str, Any] = {"namespace": "", "names": (), "label_selector": None}
    return RelatedRule(api_version="v1", resource="pods", **{**defaults, **fields})


def test_a_rule_without_namespace_reaches_into_all_of_them() -> None:
    assert related.selects(rule(names=("a",)), pod("team-b", "a"))
    assert not related.selects(rule(names=("a",), namespace="team-a"), pod("team-b", "a"))


def test_a_rule_selects_by_name_or_by_label() -> None:
    by_label = rule(label_selector={"matchLabels": {"app": "x"}})
    assert related.selects(by_label, pod("ns", "any", app="x"))
    assert not related.selects(by_label, pod("ns", "any"))
    assert not related.selects(rule(names=("a",)), pod("ns", "b"))


def test_every_kind_has_an_entry_in_a_request() -> None:
    thing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert objects.uniform_map(["Secret.v1"], [thing, node]) == {
        "Secret.v1": {},
        "Pod.v1": {"ns/p": thing},
        "Node.v1": {"n": node},
    }


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("1m30s", 90), ("250ms", 0.25)])
def test_durations(text: str, seconds: float) -> None:
    assert objects.duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["10", "s", "ten seconds", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(objects.BadController, match="is not a duration"):
        objects.duration_seconds(text)


def test_retry_after_is_seconds_or_a_date() -> None:
    assert hook.retry_after_seconds("2.5", now=0) == 2.5
    assert hook.retry_after_seconds("Thu, 01 Jan 1970 00:01:40 GMT", now=90) == 10
    with pytest.raises(hook.HookFailed, match="Retry-After"):
        hook.retry_after_seconds("soon", now=0)
