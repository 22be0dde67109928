"""Metacontroller's part, on the shipped example: what settles, and what a request shows."""

import dataclasses
import datetime
from pathlib import Path

import pytest
import yaml

from hooks import wire
from hooks.k8s import objects
from hooks.settings import Settings
from local import deployments, manifests, metacontroller, pods, world
from local.metacontroller import World

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "echo"
SETTINGS = Settings(gateway_image="gateway")
ANSWERED = {"conditions": [{"type": "Ready", "status": "True", "reason": "ScaledObjectReady"}]}


@pytest.fixture
def created() -> World:
    known = manifests.load([EXAMPLE])
    (service,) = (manifests.stored(document, now="") for document in known.services)
    runtimes = [manifests.stored(document, now="") for document in known.runtimes]
    return World(parent=service, runtimes=runtimes)


def settle(held: World, *, now: datetime.datetime = NOON) -> World:
    return metacontroller.settle(held, settings=SETTINGS, now=now)


def with_gateway(held: World) -> World:
    """As after a look that found the gateway's process ready."""
    gateway = held.deployment("echo-gateway")
    assert gateway is not None
    ready = pods.Replica(
        pod="echo-gateway-1",
        created_at=NOON,
        started_at=NOON,
        ready=True,
        ready_changed_at=NOON,
    )
    status = pods.deployment_status(gateway, [ready], now=NOON)
    return dataclasses.replace(
        held.with_deployment({**gateway, "status": status}), pods=[pods.pod(gateway, ready)]
    )


def phase(held: World) -> tuple[str, str]:
    ready = objects.condition(held.parent, "Ready")
    return objects.text(held.parent, "status", "phase"), objects.text(ready, "reason")


def test_a_new_service_gets_its_children_and_nothing_attached(created: World) -> None:
    held = settle(created)
    kinds = sorted((child["kind"], child["metadata"]["name"]) for child in held.children)
    assert ("Deployment", "echo-backend") in kinds
    assert ("Deployment", "echo-gateway") in kinds
    backend = held.deployment("echo-backend")
    assert backend is not None
    assert backend["spec"]["replicas"] == 0
    assert held.scaled_object is None
    assert phase(held) == ("Pending", "GatewayStarting")


def test_the_scaler_of_an_available_gateway_is_attached(created: World) -> None:
    held = settle(with_gateway(settle(created)))
    assert held.scaled_object is not None
    assert phase(held) == ("Pending", "ScalerStarting")


def test_a_scaler_that_answers_makes_a_service_that_sleeps_ready(created: World) -> None:
    held = settle(with_gateway(settle(created)))
    held = settle(held.with_autoscaler_status(ANSWERED))
    assert phase(held) == ("ScaledToZero", "ScaledToZero")


def test_replicas_that_keda_sets_are_kept(created: World) -> None:
    held = settle(with_gateway(settle(created)))
    backend = held.deployment("echo-backend")
    assert backend is not None
    scaled = {**backend, "spec": {**backend["spec"], "replicas": 1}}
    after = settle(held.with_deployment(scaled)).deployment("echo-backend")
    assert after is not None
    assert after["spec"]["replicas"] == 1


def test_a_settled_world_stays_as_it_is(created: World) -> None:
    held = settle(with_gateway(settle(created)))
    held = settle(held.with_autoscaler_status(ANSWERED))
    assert settle(held, now=NOON + datetime.timedelta(hours=1)) == held


def test_a_change_counts_as_a_new_generation_and_keeps_identity_and_status(created: World) -> None:
    child = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "echo"},
        "spec": {"a": 1},
    }
    (first,) = world.applied(created.parent, [], [child], now=NOON)
    seen = {**first, "status": {"x": 1}}
    (same,) = world.applied(created.parent, [seen], [child], now=NOON)
    assert same == seen
    (changed,) = world.applied(created.parent, [seen], [{**child, "spec": {"a": 2}}], now=NOON)
    assert changed["metadata"]["generation"] == 2
    assert changed["metadata"]["uid"] == first["metadata"]["uid"]
    assert changed["status"] == {"x": 1}
    assert objects.controller_of(changed)["uid"] == created.parent["metadata"]["uid"]
    assert world.applied(created.parent, [changed], [], now=NOON) == []


def test_related_objects_are_chosen_by_name_namespace_and_label() -> None:
    def pod(name: str, namespace: str, **labels: str) -> objects.Object:
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}

    held = [pod("a", "x", app="1"), pod("b", "x", app="2"), pod("c", "y", app="1")]

    def chosen(**rule: object) -> list[str]:
        asked = wire.RelatedRule.model_validate({"api_version": "v1", "resource": "pods", **rule})
        return list(world.select(held, [asked]).get("Pod.v1", {}))

    assert chosen() == ["x/a", "x/b", "y/c"]
    assert chosen(namespace="x") == ["x/a", "x/b"]
    assert chosen(names=("b", "c")) == ["x/b", "y/c"]
    assert chosen(namespace="x", label_selector={"matchLabels": {"app": "1"}}) == ["x/a"]
    assert chosen(resource="services") == []


def test_the_children_that_are_shown_are_those_of_the_shipped_controller() -> None:
    shipped = yaml.safe_load(
        (EXAMPLE.parents[2] / "metacontroller" / "llmservices.yaml").read_text()
    )
    listed = {(kind["apiVersion"], kind["resource"]) for kind in shipped["spec"]["childResources"]}
    shown = {
        (version, f"{kind.lower()}s")
        for kind, _, version in (group.partition(".") for group in world.CHILD_KINDS)
    }
    assert shown == listed


def test_young_and_unready_replicas_end_first() -> None:
    assert deployments.first_to_end(
        [
            ready(1, True),
            ready(3, True),
            ready(2, False),
        ]
    ) == [ready(2, False), ready(3, True), ready(1, True)]


def ready(second: int, is_ready: bool) -> pods.Replica:
    created = NOON + datetime.timedelta(seconds=second)
    return pods.Replica(pod="p", created_at=created, ready=is_ready, ready_changed_at=created)
