"""Any node of any fixture dropped, nulled, retyped or extended: what must hold all the same.

- The answer is 200 or 400, never 500, and 400 says why.
- No child is fewer than before.
- KEDA's number stays.
- A user's edit comes to rest: the second sync of its result writes nothing.
"""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hooks import questions, wire
from hooks.app import create_app
from hooks.k8s import objects
from hooks.llmservice import names
from tests.cluster.standin import plan
from tests.pure.hooks import golden
from tests.pure.hooks.world import COMPOSITE_KINDS, NOON, SETTINGS, Obj

Path = tuple[str | int, ...]

# Metacontroller's memory is JSON within a string; it is mutated inside as well.
INSIDE = "(decoded)"

KEDAS = "ScaledObject.keda.sh/v1alpha1"

VALUES: list[Any] = [
    None, "", "x", "10s", "{{ x }}", "\ud800", "a" * 3000, 0, -1, 1, 2**40, 10**400, 1.5, True,
    [], [None], ["x"], [[]], {}, {"x": 1}, {"name": "x"},
]  # fmt: skip

# A busy machine is no fault of the hooks.
SLOW_MACHINE = [HealthCheck.too_slow]

CASES = {case: golden.request(case) for case in golden.cases()}


def nodes(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of every node within ``value``."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from nodes(item, (*path, key))
            if key == objects.LAST_APPLIED:
                yield from nodes(json.loads(item), (*path, key, INSIDE))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nodes(item, (*path, index))


PATHS = {case: [path for path in nodes(body) if path] for case, body in CASES.items()}
# Another name or namespace is another service.
IDENTITY = {
    (root, "metadata", field) for root in ("parent", "object") for field in ("name", "namespace")
}


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, Path, str, Any]:
    case = draw(st.sampled_from(sorted(CASES)))
    path = draw(st.sampled_from(PATHS[case]))
    kind = draw(st.sampled_from(["drop", "set", "extend"]))
    return case, path, kind, draw(st.sampled_from(VALUES))


def mutate(value: Any, path: Path, kind: str, new: Any) -> Any:
    """``value``, mutated at ``path``; the value itself is left alone."""
    step, rest = path[0], path[1:]
    if step == INSIDE:
        return json.dumps(mutate(json.loads(value), rest, kind, new) if rest else new)
    changed = copy.copy(value)
    if rest:
        changed[step] = mutate(value[step], rest, kind, new)
    elif kind == "drop":
        del changed[step]
    elif kind == "set":
        changed[step] = new
    elif isinstance(value[step], dict):
        changed[step] = {**value[step], "extra": new}
    elif isinstance(value[step], list):
        changed[step] = [*value[step], new]
    else:
        changed[step] = new
    return changed


@pytest.fixture(scope="module")
def client() -> Any:
    return create_app(SETTINGS).test_client()


@given(mutations())
@settings(max_examples=2000, deadline=None, suppress_health_check=SLOW_MACHINE)
def test_what_must_hold_holds(client: Any, mutation: tuple[str, Path, str, Any]) -> None:
    case, path, kind, new = mutation
    body = mutate(CASES[case], path, kind, new)
    hook = questions.path_of(CASES[case])
    answer = client.post(hook, data=json.dumps(body))
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json["error"]
        return
    if path in IDENTITY:
        return
    observed = body["children" if "parent" in body else "attachments"]
    told = answer.json["children" if "parent" in body else "attachments"]
    before = golden.answer(CASES[case])
    missing = (keys(before) & observed_keys(observed)) - {key(child) for child in told}
    if path[:3] == ("parent", "metadata", "annotations"):
        # Fewer gateways than before are asked for, and what several have goes with them.
        missing -= {(names.DEPLOYMENTS, "ns/m-scaler"), (names.DISRUPTION_BUDGETS, "ns/m-gateway")}
    assert not missing
    if "parent" in body:
        check_number(body, told, path)
    parent = body["parent"] if "parent" in body else body["object"]
    asked = client.post(hook.replace("sync", "customize"), data=json.dumps({"parent": parent}))
    assert asked.status_code == 200
    if hook == questions.RUNTIME_SYNC:
        check_status(body, answer.json["status"])


def check_status(body: Obj, status: Obj) -> None:
    """A runtime's: the next look at it, once it is written, changes nothing."""
    written = {**body, "object": {**body["object"], "status": status}}
    later = NOON + datetime.timedelta(hours=1)
    again = questions.answer(questions.RUNTIME_SYNC, written, settings=SETTINGS, now=later)
    assert wire.dump(again)["status"] == status


# Between one gateway and several a sync sees what the one before it did; see `formation`.
STEPS_LEFT = {"gateways-to-several": 2, "gateways-back-to-one": 1}


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=SLOW_MACHINE)
def test_a_users_edit_comes_to_rest(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([c for c, body in CASES.items() if "parent" in body]))
    edits = [p for p in PATHS[case] if p[:2] == ("parent", "spec")]
    path = data.draw(st.sampled_from(edits))
    kind = data.draw(st.sampled_from(["drop", "set", "extend"]))
    body = mutate(CASES[case], path, kind, data.draw(st.sampled_from(VALUES)))
    if not isinstance(body["parent"].get("spec", {}), dict):
        return
    first = golden.answer(body)
    world = applied(body, first)
    for _ in range(STEPS_LEFT.get(case, 0)):
        first = golden.answer(world)
        world = applied(world, first)
    second = golden.answer(world)
    assert actions(world, second) == []
    assert second["status"] == first["status"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"\xff",
        b"{}",
        b'{"parent": 1}',
        b"1" * 5000,
        b'{"parent": {"metadata": {"name": "", "namespace": "ns"}}, "children": {}, "related": {}}',
        b'{"parent": NaN}',
        b'{"parent": 1e999}',
        b'{"parent": "\\ud800"}',
        b"[" * 100_000,
        b'{"object": ' * 2000,
    ],
)
@pytest.mark.parametrize(
    "path",
    list(questions.ANSWERS),
)
def test_what_is_no_hook_request_is_refused_with_a_reason(
    client: Any, path: str, body: bytes
) -> None:
    answer = client.post(path, data=body)
    assert answer.status_code == 400
    assert answer.json["error"]


@pytest.mark.parametrize(
    ("case", "holder", "annotation"),
    [
        ("mistake", ("children", names.DEPLOYMENTS, "ns/m-backend"), objects.LAST_APPLIED),
        ("keda-gateway-outage", ("attachments", KEDAS, "ns/m"), objects.LAST_APPLIED),
        ("serving", ("parent",), names.AUTOSCALING),
    ],
)
def test_half_a_character_inside_an_annotation_makes_the_whole_of_it_unread(
    client: Any, case: str, holder: Path, annotation: str
) -> None:
    body = copy.deepcopy(CASES[case])
    held = objects.mapping(body, *map(str, holder), "metadata", "annotations")
    assert held[annotation]
    held[annotation] = r'{"ready": "False", "message": "\ud800", "spec": {"x": "\ud800"}}'
    answer = client.post(questions.path_of(body), data=json.dumps(body))
    assert answer.status_code == 200
    assert "ud800" not in json.dumps(answer.json)
    assert not observed_keys(body.get("children", {})) - keys(answer.json)
    assert not observed_keys(body.get("attachments", {})) - keys(answer.json)


@pytest.mark.parametrize(
    "path", [path for path in questions.ANSWERS if not path.startswith("/runtimestatus")]
)
def test_a_service_without_a_namespace_is_refused(client: Any, path: str) -> None:
    parent = {"metadata": {"name": "m", "namespace": ""}}
    body = {"parent": parent, "object": parent, "children": {}, "attachments": {}, "related": {}}
    answer = client.post(path, data=json.dumps(body))
    assert answer.status_code == 400
    assert "metadata.namespace" in answer.json["error"]


def key(child: Obj) -> tuple[str, str]:
    return objects.identity(child)


def keys(answer: Obj) -> set[tuple[str, str]]:
    return {key(child) for child in [*answer.get("children", []), *answer.get("attachments", [])]}


def observed_keys(groups: dict[str, dict[str, Obj]]) -> set[tuple[str, str]]:
    return {(group, name) for group, members in groups.items() for name in members}


def check_number(body: Obj, told: list[Obj], path: Path) -> None:
    """Where KEDA owned the number before the mutation, it is still answered."""
    observed = body["children"].get(names.DEPLOYMENTS, {}).get("ns/m-backend")
    number = objects.number(observed, "spec", "replicas")
    spec = objects.dig(body, "parent", "spec")
    annotated = objects.annotation(body["parent"], names.AUTOSCALING) is not None
    if number is None or not annotated or spec is None:
        return
    (backend,) = (child for child in told if key(child) == (names.DEPLOYMENTS, "ns/m-backend"))
    assert backend["spec"]["replicas"] == number


def actions(body: Obj, answer: Obj) -> list[plan.Action]:
    """What Metacontroller would write."""
    observed = [obj for members in body["children"].values() for obj in members.values()]
    wanted = [plan.selected(child, body["parent"]) for child in answer["children"]]
    return plan.children(body["parent"], observed, wanted, COMPOSITE_KINDS)


def applied(body: Obj, answer: Obj) -> Obj:
    """The world after Metacontroller has applied the answer."""
    world = copy.deepcopy(body)
    for action in actions(body, answer):
        group, name = key(action.obj)
        if isinstance(action, plan.Delete):
            del world["children"][group][name]
        else:
            world["children"].setdefault(group, {})[name] = action.obj
    generation = objects.number(body, "parent", "metadata", "generation")
    world["parent"]["status"] = answer["status"] | {"observedGeneration": generation}
    return world
