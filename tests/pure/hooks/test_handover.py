"""Who owns the backend's replicas, from creation to the end of the service (rules 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hooks import wire
from hooks.k8s import objects
from hooks.llmservice import names
from hooks.llmservice import sync as llmservice
from hooks.llmservice.arrange import ReplicasRule
from tests.pure.hooks import scenes
from tests.pure.hooks.world import Obj, World, example, service, serving


def replicas(world: World) -> int:
    found: int = world.deployment("backend")["spec"]["replicas"]
    return found


def is_kedas(world: World) -> bool:
    annotations: Obj = world.deployment("backend")["metadata"]["annotations"]
    return annotations.get(names.REPLICAS_OWNER) == "keda"


@pytest.mark.parametrize("least", [0, 2])
def test_a_backend_is_created_with_the_minimum(least: int) -> None:
    world = World(service(scaling={"min": least, "max": 3}))
    world.run_composite()
    assert replicas(world) == least
    assert not is_kedas(world)


def test_without_keda_an_edit_of_the_minimum_is_followed() -> None:
    world = World(service(scaling={"min": 1, "max": 5}))
    for least in (3, 2):
        world.edit(scaling={"min": least, "max": 5})
        world.run_composite()
        assert replicas(world) == least


def test_nothing_is_attached_before_the_gateway_is_available() -> None:
    world = World()
    world.settle()
    assert names.AUTOSCALING not in world.parent["metadata"]["annotations"]
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]


def test_nothing_is_attached_before_the_minimum_is_reached() -> None:
    world = World(service(scaling={"min": 0, "max": 3}))
    world.settle()
    world.gateway_becomes(available=True)
    world.edit(scaling={"min": 2, "max": 3})
    world.run_decorator()
    assert not world.writes[-1].endswith("annotations")
    world.settle()
    assert replicas(world) == 2
    assert world.scaled_object()["spec"]["minReplicaCount"] == 2


def test_the_scaled_object_waits_until_the_composite_has_let_go() -> None:
    world = World()
    world.settle()
    world.gateway_becomes(available=True)
    world.run_decorator()
    assert names.AUTOSCALING in world.parent["metadata"]["annotations"]
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]
    world.run_decorator()
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]
    world.run_composite()
    assert is_kedas(world)
    world.run_decorator()
    assert world.scaled_object()


def test_the_annotation_alone_hands_over_even_where_the_mark_was_not_seen_yet() -> None:
    """A Composite that reads an old Deployment still must not lower what KEDA set."""
    world = serving(World(), replicas=3)
    del world.deployment("backend")["metadata"]["annotations"][names.REPLICAS_OWNER]
    world.run_composite()
    assert replicas(world) == 3
    assert is_kedas(world)


def test_after_the_hand_over_every_number_of_kedas_is_echoed() -> None:
    world = serving(World())
    for number in (1, 3, 0, 2, 0, 1):
        world.scale(number)
        world.settle()
        assert replicas(world) == number


def test_an_edited_minimum_is_kedas_business_after_the_hand_over() -> None:
    world = serving(World())
    world.edit(scaling={"min": 2, "max": 4})
    world.settle()
    assert replicas(world) == 1
    assert world.scaled_object()["spec"]["minReplicaCount"] == 2
    assert world.scaled_object()["spec"]["maxReplicaCount"] == 4


def test_the_number_stays_kedas_when_annotation_and_scaled_object_are_gone() -> None:
    world = serving(World(), replicas=2)
    world.parent["metadata"]["annotations"] = {}
    world.attached["ScaledObject.keda.sh/v1alpha1"].clear()
    world.run_composite()
    assert replicas(world) == 2
    assert is_kedas(world)


def test_the_mark_is_put_back_where_somebody_removed_it() -> None:
    world = serving(World(), replicas=2)
    world.parent["metadata"]["annotations"] = {}
    del world.deployment("backend")["metadata"]["annotations"][names.REPLICAS_OWNER]
    world.run_composite()
    assert replicas(world) == 2
    assert is_kedas(world)


def test_a_removed_annotation_is_put_back_and_changes_nothing_else() -> None:
    world = serving(World(), replicas=2)
    world.parent["metadata"]["annotations"] = {}
    assert set(world.settle()) <= {"annotations", "status"}
    assert replicas(world) == 2


def test_a_deleted_scaled_object_comes_back_without_a_change_of_replicas() -> None:
    world = serving(World(), replicas=2)
    world.attached["ScaledObject.keda.sh/v1alpha1"].clear()
    world.settle()
    assert world.scaled_object()
    assert replicas(world) == 2


def test_a_raised_minimum_does_not_keep_a_lost_scaled_object_away() -> None:
    """Handed over, the Composite no longer follows `min`: only KEDA can reach it."""
    world = serving(World(), replicas=0)
    world.attached["ScaledObject.keda.sh/v1alpha1"].clear()
    world.edit(scaling={"min": 2, "max": 3})
    world.settle()
    assert world.scaled_object()["spec"]["minReplicaCount"] == 2


def test_a_backend_that_was_deleted_is_made_with_the_minimum_and_stays_kedas() -> None:
    world = serving(World(), replicas=2)
    del world.owned["Deployment.apps/v1"]["ns/m-backend"]
    world.run_composite()
    assert replicas(world) == 0
    assert is_kedas(world)


def test_minimum_two_works_without_keda_and_survives_its_late_install() -> None:
    world = World(service(scaling={"min": 2, "max": 4}))
    world.run_composite()
    world.gateway_becomes(available=True)
    world.scale(2, ready=2)
    world.run_composite()
    assert world.ready() == ("Ready", "True", "Available")
    assert world.condition("AutoscalingReady")["reason"] == "AutoscalerMissing"
    world.settle()  # KEDA is installed: the Decorator runs for the first time.
    assert replicas(world) == 2
    assert world.scaled_object()["spec"]["minReplicaCount"] == 2


def test_a_gateway_outage_leaves_the_scaled_object_byte_for_byte() -> None:
    world = serving(World())
    before = world.ask_decorator()
    world.pass_time(60)
    world.gateway_becomes(available=False)
    assert world.ask_decorator() == before


def test_an_edit_waits_for_the_scaler_that_answers_for_it() -> None:
    world = serving(World())
    world.gateway_becomes(available=False)
    world.edit(scaling={"max": 7})
    world.settle()
    assert world.scaled_object()["spec"]["maxReplicaCount"] == 1
    world.gateway_becomes(available=True)
    world.settle()
    assert world.scaled_object()["spec"]["maxReplicaCount"] == 7


def test_keda_looks_again_after_an_outage() -> None:
    world = serving(World())
    before = world.trigger()["metadata"]["availableSince"]
    world.has_an_outage()
    after = world.trigger()["metadata"]["availableSince"]
    assert after != before


def test_keda_is_made_to_look_twice_more_where_it_does_not_find_the_scaler() -> None:
    """Its node may not lead to the new one when it looks, and it waits ever longer by itself."""
    world = serving(World())
    world.has_an_outage()
    world.keda_says("False", "ScaledObjectCheckFailed", "no metric specs returned from scalers")
    world.settle()
    assert "askedAgain" not in world.trigger()["metadata"]
    assert world.ask_decorator()["resyncAfterSeconds"] == 16
    for seconds, asked in ((14, None), (2, "1"), (43, "1"), (2, "2"), (3600, "2")):
        world.pass_time(seconds)
        world.settle()
        assert world.trigger()["metadata"].get("askedAgain") == asked
    assert world.ask_decorator()["resyncAfterSeconds"] == 0
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.settle()
    assert world.trigger()["metadata"]["askedAgain"] == "2"
    world.has_an_outage()
    assert "askedAgain" not in world.trigger()["metadata"]


def test_keda_is_left_alone_where_it_found_the_scaler() -> None:
    world = serving(World())
    world.has_an_outage()
    world.pass_time(3600)
    world.settle()
    assert "askedAgain" not in world.trigger()["metadata"]
    assert world.ask_decorator()["resyncAfterSeconds"] == 0


def test_a_new_scaled_object_has_its_time_however_long_the_scaler_was_there() -> None:
    world = World()
    world.run_composite()
    world.gateway_becomes(available=True)
    world.pass_time(3600)
    world.settle()
    world.pass_time(14)
    world.settle()
    assert "askedAgain" not in world.trigger()["metadata"]
    world.pass_time(2)
    world.settle()
    assert world.trigger()["metadata"]["askedAgain"] == "1"


def test_keda_looks_again_after_an_outage_under_a_mistake() -> None:
    world = serving(World())
    before: Obj = world.scaled_object()["spec"]
    world.edit(scaling={"min": 9}, typo=1)
    world.pass_time(60)
    world.gateway_becomes(available=True)
    world.settle()
    after = world.scaled_object()["spec"]
    (trigger,) = after["triggers"]
    assert trigger["metadata"]["availableSince"] == "2026-06-01T12:01:00Z"
    (old,) = before["triggers"]
    trigger["metadata"]["availableSince"] = old["metadata"]["availableSince"]
    assert after == before


def test_what_nobody_controls_is_not_of_a_service_without_a_uid() -> None:
    world = scenes.scaled_object_taken()
    del world.parent["metadata"]["uid"]
    answer = world.ask_decorator()
    assert answer["attachments"] == []
    assert "ScaledObject m is not ours" in answer["annotations"][names.AUTOSCALING]


def test_the_scaled_object_of_a_stranger_is_left_alone() -> None:
    world = World()
    stranger = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "m", "namespace": "ns", "uid": "x"},
    }
    world.foreign.append(stranger)
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    assert world.condition("AutoscalingReady")["reason"] == "ChildNameTaken"
    assert names.REPLICAS_OWNER not in world.deployment("backend")["metadata"]["annotations"]
    world.foreign.clear()
    world.settle()
    assert world.scaled_object()
    assert is_kedas(world)


def test_the_scaled_object_says_what_the_service_says() -> None:
    world = World(
        service(scaling={"min": 1, "max": 4, "target": 7, "scaleDownStabilization": "90s"}),
        example("runtime"),
    )
    world.run_composite()
    world.gateway_becomes(available=True)
    world.settle()
    spec = world.scaled_object()["spec"]
    assert spec == {
        "advanced": {
            "horizontalPodAutoscalerConfig": {
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 90}}
            }
        },
        "cooldownPeriod": 90,
        "initialCooldownPeriod": 90,
        "maxReplicaCount": 4,
        "minReplicaCount": 1,
        "pollingInterval": 10,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "m-backend"},
        "triggers": [
            {
                "metadata": {
                    "availableSince": "2026-06-01T12:00:00Z",
                    "scalerAddress": "m-scaler.ns.svc:9090",
                    "target": "7",
                },
                "type": "external-push",
            }
        ],
    }
    assert world.scaled_object()["metadata"]["labels"]["scaledobject.keda.sh/name"] == "m"


@pytest.mark.parametrize("controller", ["ours", "theirs"])
def test_a_scaled_object_of_an_earlier_namesake_is_waited_for_with_its_repair(
    controller: str,
) -> None:
    world = scenes.scaled_object_taken()
    holder = world.foreign[0]["metadata"]
    if controller == "ours":
        owner = {"kind": "LLMService", "name": "m", "uid": "earlier", "controller": True}
        holder["ownerReferences"] = [owner]
    else:
        holder["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    world.settle()
    told = world.condition("AutoscalingReady")
    assert told["reason"] == "ChildNameTaken"
    assert "kubectl patch scaledobject m -n ns" in told["message"]
    assert "not ours" not in told["message"]


# --- Why so many ----------------------------------------------------------------------------------


def forgotten() -> World:
    """Handed over, and neither observed nor remembered."""
    world = serving(World())
    backend = world.deployment("backend")
    del backend["spec"]["replicas"]
    del backend["metadata"]["annotations"][objects.LAST_APPLIED]
    return world


def not_yet_made() -> World:
    """A service whose weights are to be staged, and nothing of it."""
    world = scenes.prewarming(scenes.HUB)
    return World(world.parent, world.runtimes[0])


def mistaken_without_keda() -> World:
    world = scenes.available()
    world.edit(typo=1)
    return world


@pytest.mark.parametrize(
    ("scene", "rule"),
    [
        (lambda: World(service(typo=1)), ReplicasRule.WITHOUT),
        (World, ReplicasRule.RENDERED),
        (lambda: serving(World()), ReplicasRule.KEDAS),
        (lambda: scenes.mistaken(typo=1), ReplicasRule.KEDAS),
        (mistaken_without_keda, ReplicasRule.RESTORED),
        (lambda: scenes.prewarming(scenes.HUB), ReplicasRule.STAGING),
        (not_yet_made, ReplicasRule.BEFORE_STAGING),
        (forgotten, ReplicasRule.UNKNOWN),
    ],
    ids=lambda value: value.name if isinstance(value, ReplicasRule) else "",
)
def test_each_reason_for_a_number_of_replicas_is_told_apart(
    scene: Callable[[], World], rule: ReplicasRule
) -> None:
    world = scene()
    request = wire.load(wire.CompositeRequest, world.composite_request())
    decision = llmservice.decide(request, settings=world.settings, now=world.now)
    assert decision.arrangement.replicas_rule is rule
