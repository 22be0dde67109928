"""A variable stands before those that refer to it, also where it was added later.

The world's Metacontroller merges as the real one does: what is there keeps its place.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.pure.hooks.world import Obj, World, example, merged, serving

# Each variable by its name and value.
Variables = dict[str, str]

EDITS: dict[str, tuple[Variables, Variables]] = {
    "a variable is added before one that refers to it": (
        {"B": "$(A)/b"},
        {"A": "a", "B": "$(A)/b"},
    ),
    "a variable comes to refer to one that is added": ({"B": "b"}, {"A": "a", "B": "$(A)/b"}),
    "a variable comes to refer to one that stands after it": (
        {"B": "b", "A": "a"},
        {"A": "a", "B": "$(A)/b"},
    ),
    "two are put into the right order": (
        {"B": "$(A)/b", "A": "a"},
        {"A": "a", "B": "$(A)/b"},
    ),
    "a chain is turned round": (
        {"C": "$(B)", "B": "$(A)", "A": "a"},
        {"A": "a", "B": "$(A)", "C": "$(B)"},
    ),
    "one is put after what refers to it": (
        {"A": "a", "B": "$(A)/b"},
        {"B": "$(A)/b", "A": "a"},
    ),
}


def _runtime(variables: Variables) -> Obj:
    overlay = {"spec": {"container": {"env": _wanted(variables)}}}
    made: Obj = merged(example("runtime"), overlay)
    return made


def _env(world: World, names: Variables) -> list[Any]:
    """The engine's variables of these names, as the Deployment has them."""
    (container,) = world.deployment("backend")["spec"]["template"]["spec"]["containers"]
    return [variable for variable in container.get("env", []) if variable["name"] in names]


def _wanted(variables: Variables) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in variables.items()]


@pytest.mark.parametrize(("before", "after"), EDITS.values(), ids=EDITS)
def test_the_order_is_the_runtimes_and_no_other_template_makes_a_pod(
    before: Variables, after: Variables
) -> None:
    world = serving(World(runtime=_runtime(before)))
    old = _pod(world)
    world.runtimes = [_runtime(after)]
    templates = [old]
    for _ in range(4):
        world.run_composite()
        if not world.deployment("backend")["spec"].get("paused"):
            templates.append(_pod(world))
    assert _env(world, after) == _wanted(after)
    assert "paused" not in world.deployment("backend")["spec"]
    assert world.deployment("backend")["spec"]["replicas"] == 1
    assert len(set(templates)) == 2, "one rollout"
    assert world.settle() == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"B": "b"}, {"A": "a", "B": "b"}),
        ({"A": "a", "B": "$(A)"}, {"A": "another", "B": "$(A)"}),
        ({"A": "a"}, {"A": "a", "B": "$(A)"}),
        ({"B": "$(ELSEWHERE)"}, {"A": "a", "B": "$(ELSEWHERE)"}),
        ({"B": "$(B)"}, {"A": "a", "B": "$(B)"}),
    ],
)
def test_where_the_merge_does_no_harm_one_write_is_enough(
    before: Variables, after: Variables
) -> None:
    world = serving(World(runtime=_runtime(before)))
    world.runtimes = [_runtime(after)]
    world.run_composite()
    assert "paused" not in world.deployment("backend")["spec"]
    assert {variable["name"] for variable in _env(world, after)} == set(after)


def test_what_others_added_to_the_engine_stays() -> None:
    before, after = EDITS["a variable is added before one that refers to it"]
    world = serving(World(runtime=_runtime(before)))
    (container,) = world.deployment("backend")["spec"]["template"]["spec"]["containers"]
    container["env"].insert(0, {"name": "THEIRS", "value": "kept"})
    world.runtimes = [_runtime(after)]
    world.settle()
    assert _env(world, {**after, "THEIRS": ""}) == _wanted({"THEIRS": "kept", **after})


def test_a_webhook_that_puts_a_variable_first_is_not_fought() -> None:
    """What it puts back at every write is left to it after one try."""
    before, after = EDITS["a variable is added before one that refers to it"]
    world = serving(World(runtime=_runtime(before)))
    world.runtimes = [_runtime(after)]
    for _ in range(5):
        world.run_composite()
        (container,) = world.deployment("backend")["spec"]["template"]["spec"]["containers"]
        container["env"].sort(key=lambda variable: variable["name"] != "B")
        if all(variable["name"] != "B" for variable in container["env"]):
            container["env"].insert(0, {"name": "B", "value": "$(A)/b"})
    assert "paused" not in world.deployment("backend")["spec"]
    assert world.settle() == []


def test_a_mistake_on_the_way_leaves_the_deployment_as_it_is_until_it_is_mended() -> None:
    before, after = EDITS["a variable is added before one that refers to it"]
    world = serving(World(runtime=_runtime(before)))
    world.runtimes = [_runtime(after)]
    world.run_composite()
    assert world.deployment("backend")["spec"]["paused"] is True
    world.runtimes = []
    world.settle()
    assert world.deployment("backend")["spec"]["paused"] is True
    world.runtimes = [_runtime(after)]
    world.settle()
    assert "paused" not in world.deployment("backend")["spec"]
    assert _env(world, after) == _wanted(after)


def _pod(world: World) -> str:
    return json.dumps(world.deployment("backend")["spec"]["template"]["spec"], sort_keys=True)
