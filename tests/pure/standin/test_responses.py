"""Hook answers are parsed strictly."""

from __future__ import annotations

import json

import pytest

from tests.cluster.standin import responses

CHILD = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "m"}}


def test_a_composite_answer() -> None:
    body = {"status": {"phase": "Ready"}, "children": [CHILD], "resyncAfterSeconds": 2.5}
    assert responses.parse_composite(json.dumps(body).encode()) == responses.CompositeResponse(
        status={"phase": "Ready"}, children=[CHILD], resync_after_seconds=2.5
    )


def test_a_decorator_answer() -> None:
    body = {"annotations": {"a": None, "b": "1"}, "attachments": [CHILD]}
    assert responses.parse_decorator(json.dumps(body).encode()) == responses.DecoratorResponse(
        labels={},
        annotations={"a": None, "b": "1"},
        status=None,
        attachments=[CHILD],
        resync_after_seconds=0.0,
    )


def test_a_customize_answer() -> None:
    rule = {"apiVersion": "v1", "resource": "pods", "namespace": "ns", "names": ["a", "b"]}
    body = json.dumps({"relatedResources": [rule]}).encode()
    assert responses.parse_customize(body) == [
        responses.RelatedRule(
            api_version="v1",
            resource="pods",
            namespace="ns",
            names=("a", "b"),
            label_selector=None,
        )
    ]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param('{"childrem": []}', "unknown field", id="unknown field"),
        pytest.param('{"children": [], "children": []}', "repeated field", id="repeated field"),
        pytest.param('{"status": {"a": 1, "a": 2}}', "repeated field", id="repeated deep inside"),
        pytest.param('{"children": [{"kind": "Pod"}]}', "lacks apiVersion", id="nameless child"),
        pytest.param('{"status": "fine"}', "status is 'fine'", id="status of another type"),
        pytest.param('{"resyncAfterSeconds": "5"}', "expected a number", id="delay as text"),
        pytest.param("[]", "expected an object", id="not an object"),
        pytest.param("<html>", "not JSON", id="not JSON"),
    ],
)
def test_an_unusable_answer_is_refused(body: str, complaint: str) -> None:
    with pytest.raises(responses.BadResponse, match=complaint):
        responses.parse_composite(body.encode())


def test_names_and_labels_in_one_rule_are_refused() -> None:
    rule = {"apiVersion": "v1", "resource": "pods", "names": ["a"], "labelSelector": {}}
    with pytest.raises(responses.BadResponse, match="names and labelSelector"):
        responses.parse_customize(json.dumps({"relatedResources": [rule]}).encode())
