"""From one gateway to several and back, while KEDA is always answered by who knows all of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from hooks.llmservice import names
from tests.pure.hooks.world import Obj, World, merged, service, serving

DEPLOYMENTS = "Deployment.apps/v1"
TLS = {
    "externalScaler": {"tls": {"serverSecretName": "scaler", "authenticationRef": {"name": "keda"}}}
}


class Formation(NamedTuple):
    """What is to be seen of one."""

    gateways: int
    members: bool
    aggregate: bool
    asked: str


ONE = Formation(1, members=False, aggregate=False, asked="gateway")
SEVERAL = Formation(2, members=True, aggregate=True, asked="scaler")

WITH_SCALER = Formation(1, members=False, aggregate=True, asked="gateway")
SCALER_ASKED = Formation(1, members=False, aggregate=True, asked="scaler")
FIRST_MEMBER = Formation(1, members=True, aggregate=True, asked="scaler")


def seen(world: World) -> Formation:
    gateway = world.deployment("gateway")["spec"]
    [container] = gateway["template"]["spec"]["containers"]
    return Formation(
        gateway["replicas"],
        members="--member" in container["args"],
        aggregate="ns/m-scaler" in world.owned[DEPLOYMENTS],
        asked=world.owned["Service.v1"]["ns/m-scaler"]["spec"]["selector"][names.LABEL_COMPONENT],
    )


def at_rest(count: int, **spec: object) -> World:
    annotations = {"metadata": {"annotations": {names.GATEWAY_REPLICAS: str(count)}}}
    world = serving(World(merged(service(**spec), annotations)), replicas=1)
    end(world)
    assert world.settle() == []
    return world


def end(world: World, *, but: str = "") -> None:
    """All that was begun comes to its end, but for the Deployment of one component."""
    for component in ("gateway", "scaler"):
        if f"ns/m-{component}" in world.owned[DEPLOYMENTS] and component != but:
            world.roll_out(component)
    if but == "gateway":
        return
    world.pods = {key: pod for key, pod in world.pods.items() if "gateway" not in key}
    for number in range(world.deployment("gateway")["spec"]["replicas"]):
        world.add_pod(f"m-gateway-{number}", component="gateway", phase="Running")


def ask_for(world: World, count: int) -> None:
    world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS] = str(count)


def steps(world: World) -> list[Formation]:
    """One sync, one end of what it began, one sync...: each formation once."""
    formations = [seen(world)]
    for _ in range(12):
        world.run_composite()
        if seen(world) != formations[-1]:
            formations.append(seen(world))
        end(world)
        world.run_decorator()
    return formations


def test_the_scaler_of_several_comes_first_and_is_asked_before_there_are_several() -> None:
    world = at_rest(1)
    ask_for(world, 2)
    assert steps(world) == [
        ONE,
        WITH_SCALER,
        SCALER_ASKED,
        FIRST_MEMBER,
        SEVERAL,
    ]
    assert world.settle() == []


def test_the_scaler_of_several_goes_last() -> None:
    world = at_rest(2)
    ask_for(world, 1)
    assert steps(world) == [SEVERAL, SCALER_ASKED, WITH_SCALER, ONE]
    assert world.settle() == []


def test_a_scaler_that_does_not_start_leaves_keda_with_the_one_gateway() -> None:
    world = at_rest(1)
    before = world.scaled_object()
    ask_for(world, 2)
    for _ in range(3):
        world.settle()
        end(world, but="scaler")
    assert seen(world) == WITH_SCALER
    assert world.scaled_object() == before


def test_one_gateway_is_not_asked_while_another_ends_its_last_requests() -> None:
    world = at_rest(2)
    ask_for(world, 1)
    world.settle()
    world.roll_out("gateway")
    ending = world.add_pod("m-gateway-1", component="gateway", phase="Running")
    ending["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    world.settle()
    assert seen(world) == SCALER_ASKED
    del world.pods["ns/m-gateway-1"]
    world.add_pod("m-gateway-evicted", component="gateway", phase="Failed")
    world.settle()
    assert seen(world) == ONE


@pytest.mark.parametrize("there", [1, 2, 3, 4])
def test_a_number_that_is_taken_back_on_the_way_turns_it_around(there: int) -> None:
    world = at_rest(1)
    ask_for(world, 2)
    for _ in range(there):
        world.run_composite()
        end(world)
    ask_for(world, 1)
    assert steps(world)[-1] == ONE
    ask_for(world, 2)
    assert steps(world)[-1] == SEVERAL


def test_a_mistake_on_the_way_stops_it_where_it_is() -> None:
    world = at_rest(1)
    ask_for(world, 2)
    world.settle()
    world.edit(typo=1)
    before = seen(world)
    assert steps(world) == [before]


def test_between_two_numbers_of_several_there_is_no_step() -> None:
    world = at_rest(2)
    for count in (3, 2):
        ask_for(world, count)
        world.run_composite()
        assert seen(world) == SEVERAL._replace(gateways=count)


def test_several_are_made_at_once_where_there_was_none() -> None:
    world = World(merged(service(), {"metadata": {"annotations": {names.GATEWAY_REPLICAS: "2"}}}))
    world.settle()
    assert seen(world) == SEVERAL


def test_no_step_touches_kedas_object_or_its_number() -> None:
    world = at_rest(1)
    kept = world.scaled_object()["metadata"]["uid"]
    for count in (2, 1):
        ask_for(world, count)
        world.pass_time(60)
        steps(world)
        assert world.scaled_object()["metadata"]["uid"] == kept
        assert world.deployment("backend")["spec"]["replicas"] == 1
        assert world.ready() == ("Ready", "True", "Available")


def test_keda_looks_again_once_the_scaler_of_several_answers() -> None:
    world = at_rest(1)
    before = since(world)
    ask_for(world, 2)
    world.pass_time(60)
    steps(world)
    scaler = world.deployment("scaler")["status"]["conditions"][0]["lastTransitionTime"]
    assert since(world) == scaler != before


def since(world: World) -> str:
    text: str = world.trigger()["metadata"]["availableSince"]
    return text


@pytest.mark.parametrize("count", [1, 2])
def test_keda_shows_a_certificate_once_it_is_asked_for_one(count: int) -> None:
    """Who answers KEDA so far cannot read it, and a missing Secret keeps them for good."""
    world, holder = at_rest(count), "gateway" if count == 1 else "scaler"
    world.edit(scaling=TLS | {"max": 3})
    world.settle()
    end(world, but=holder)
    world.settle()
    assert "authenticationRef" not in world.trigger()
    assert world.scaled_object()["spec"]["maxReplicaCount"] == 3
    end(world)
    world.settle()
    assert world.trigger()["authenticationRef"]["name"] == "keda"
    world.edit(scaling={"max": 3})
    world.settle()
    assert "authenticationRef" in world.trigger()
    end(world)
    world.settle()
    assert "authenticationRef" not in world.trigger()


def test_a_scaler_of_several_outlives_a_service_and_gateways_that_somebody_deleted() -> None:
    world = at_rest(2)
    ask_for(world, 1)
    world.settle()
    del world.owned["Service.v1"]["ns/m-scaler"], world.owned[DEPLOYMENTS]["ns/m-gateway"]
    world.run_composite()
    assert seen(world) == SCALER_ASKED
    assert steps(world)[-1] == ONE


def test_what_is_left_of_several_is_made_whole_at_once() -> None:
    world = at_rest(2)
    del world.owned["Service.v1"]["ns/m-scaler"], world.owned[DEPLOYMENTS]["ns/m-gateway"]
    world.run_composite()
    assert seen(world) == SEVERAL


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("before", "after"), [({}, TLS), (TLS, {})], ids=["asked for", "given up"])
def test_an_edit_of_certificates_reaches_keda_after_who_answers_it(
    count: int, before: Obj, after: Obj
) -> None:
    """Whichever of the two controllers sees the edit first."""
    world = at_rest(count)
    world.edit(scaling=before)
    world.settle()
    end(world)
    world.settle()
    shown = "authenticationRef" in world.trigger()
    world.edit(scaling=after)
    world.run_decorator()
    assert ("authenticationRef" in world.trigger()) is shown is bool(before)
