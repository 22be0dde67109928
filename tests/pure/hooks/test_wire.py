"""Requests as Metacontroller sends them, and answers as it takes them."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from hooks import wire
from hooks.app import create_app
from hooks.llmservice import sync as llmservice
from tests.pure.hooks.world import SETTINGS, World, service, serving

PARENT = {"metadata": {"name": "m", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (wire.CompositeRequest, [], "not a JSON object"),
        (wire.CompositeRequest, {"parent": PARENT, "related": {}}, "children: is required"),
        (wire.CompositeRequest, {"parent": PARENT, "children": {}}, "related"),
        (
            wire.CompositeRequest,
            {"parent": PARENT, "children": {"a": {"b": 1}}, "related": {}},
            r"children\.a\.b: must be an object",
        ),
        (wire.CompositeRequest, {"parent": {}, "children": {}, "related": {}}, "metadata.name"),
        (wire.DecoratorRequest, {"parent": PARENT, "attachments": {}, "related": {}}, "object"),
        (wire.DecoratorRequest, {"object": PARENT, "related": {}}, "attachments"),
        (wire.CustomizeRequest, {"parent": {"metadata": {"name": "m"}}}, "metadata.namespace"),
    ],
)
def test_what_is_no_request_says_what_is_missing(kind: Any, body: Any, reason: str) -> None:
    with pytest.raises(wire.RequestError, match=reason):
        wire.load(kind, body)


def test_fields_of_a_newer_metacontroller_are_no_mistake() -> None:
    body = {"parent": PARENT, "children": {}, "related": {}, "controller": {}, "newer": 1}
    assert wire.load(wire.CompositeRequest, body).parent == PARENT


def test_answers_hold_only_what_version_two_knows() -> None:
    """It refuses an answer with an unknown field."""
    world = serving(World())
    assert set(world.ask_composite()) == {"children", "status", "resyncAfterSeconds"}
    assert set(world.ask_decorator()) == {"attachments", "annotations", "resyncAfterSeconds"}


def test_every_child_names_its_namespace() -> None:
    """Without one its key differs from the observed child's, which would be deleted."""
    world = World(service(cache={}))
    for child in world.ask_composite()["children"]:
        assert child["metadata"]["namespace"] == "ns"


def test_a_metacontroller_that_applies_by_force_is_refused() -> None:
    world = serving(World())
    request = world.composite_request()
    metadata = request["children"]["Deployment.apps/v1"]["ns/m-backend"]["metadata"]
    metadata["managedFields"] = [{"manager": "metacontroller", "operation": "Apply"}]
    wire.load(wire.CompositeRequest, request)
    metadata["annotations"] = {}
    with pytest.raises(wire.RequestError, match="server-side-apply"):
        wire.load(wire.CompositeRequest, request)


# --- Customize ------------------------------------------------------------------------------------


def rules(parent: Any) -> list[dict[str, Any]]:
    request = wire.load(wire.CustomizeRequest, {"parent": parent})
    found: list[dict[str, Any]] = wire.dump(llmservice.customize(request))["relatedResources"]
    return found


def test_every_rule_for_a_namespaced_kind_names_the_namespace() -> None:
    """Without one a rule of version two matches all namespaces."""
    for rule in rules(service()):
        assert rule.get("namespace") == (None if rule["resource"] == "inferenceruntimes" else "ns")


def test_names_and_labels_are_never_combined() -> None:
    assert all(not {"names", "labelSelector"} <= set(rule) for rule in rules(service()))


def test_every_kind_of_child_is_asked_for_by_name() -> None:
    """To see whatever holds the name of a child."""
    asked = {
        (rule["apiVersion"], rule["resource"].rstrip("s"), name)
        for rule in rules(service())
        for name in rule.get("names", ())
    }
    for child in World(service(cache={})).ask_composite()["children"]:
        kind = child["kind"].lower()
        assert (child["apiVersion"], kind, child["metadata"]["name"]) in asked


def test_rules_depend_on_spec_and_name_only() -> None:
    """Metacontroller keeps them as long as the generation stays."""
    parent = serving(World()).parent
    fresh = service()
    assert rules(parent) == rules(fresh)


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ({"name": "echo"}, [{"names": ("echo",)}]),
        ({"selector": {"vendor": ["nvidia"]}}, [{}]),
        ({}, []),
        (None, []),
        ("x", []),
        ({"name": 5}, []),
    ],
)
def test_the_named_runtime_or_all_of_them_are_asked_for(runtime: Any, expected: Any) -> None:
    kind = {"apiVersion": "serving.noctaya.io/v1alpha1", "resource": "inferenceruntimes"}
    asked = [r for r in rules(service(runtime=runtime)) if r["resource"] == "inferenceruntimes"]
    assert asked == [kind | more for more in expected]


def test_what_is_loaded_is_not_looked_through_for_garbage_again() -> None:
    thresholds = gc.get_threshold()
    try:
        create_app(SETTINGS)
        assert gc.get_freeze_count() > 1000
        assert gc.get_threshold()[0] > 1000
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
