"""Names at their limits, twins of one name, and children whose names others hold."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hooks import questions, wire
from hooks.llmservice import names
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import Plan
from hooks.llmservice.render import children
from hooks.llmservice.render.prewarm import job
from hooks.llmservice.resolve import resolve
from tests.pure.hooks.scenes import HUB, LOCAL, VLLM, full
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, service

# Of everything that a service's name becomes: labels, Services, and a Job's name on its Pods.
DNS_LABEL = "[a-z]([-a-z0-9]{0,61}[a-z0-9])?"


def named(name: str, namespace: str = "ns", **spec: Any) -> World:
    parent = service(**spec)
    parent["metadata"] |= {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return World(parent, json.loads(json.dumps(VLLM)))


def planned(name: str, namespace: str = "ns") -> Plan:
    """With every child that there is."""
    world = named(name, namespace, **HUB, cache=LOCAL, runtime={"name": "vllm"})
    request = wire.load(wire.CompositeRequest, world.composite_request())
    plan = resolve(request, SETTINGS)
    assert isinstance(plan, Plan)
    return plan


def made(plan: Plan) -> list[Obj]:
    return [*children(plan), job(plan, plan.staging, claim_uid="uid")]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "a-1", "x" + "y" * 53, "a" + "-" * 52 + "b"])
def test_every_child_of_a_name_within_the_limits_can_be_made(name: str) -> None:
    for child in made(planned(name)):
        assert re.fullmatch(DNS_LABEL, child["metadata"]["name"]), child["metadata"]["name"]
        for value in child["metadata"]["labels"].values():
            assert len(value) <= 63
    # KEDA's own object, of 63 characters as well.
    assert len(f"keda-hpa-{names.scaled_object(ServiceName(name))}") <= 63


@pytest.mark.parametrize("runtime", ["1st", "vllm.v0.11-cu128", "r" * 253])
def test_a_runtime_may_have_any_name_that_an_object_may(runtime: str) -> None:
    world = World(service(runtime={"name": runtime}))
    world.runtimes[0]["metadata"]["name"] = runtime
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == runtime


@pytest.mark.parametrize("runtime", ["größe", "A", "a b", "a_b", "-a", "r" * 254])
def test_a_runtime_that_cannot_exist_is_a_mistake_in_the_spec(runtime: str) -> None:
    world = World(service(runtime={"name": runtime}))
    world.settle()
    assert world.ready()[2] == "SpecInvalid"
    assert "spec.runtime.name" in world.condition("Ready")["message"]


def test_what_users_write_in_their_own_tongue_reaches_the_engine_as_it_stands() -> None:
    words = ["--chat-template=你好 {{ größe }}", "--name=\N{ROCKET}"]
    world = World(service(runtime={"name": "echo", "argsOverride": words}))
    world.settle()
    container = world.deployment("backend")["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][-2:] == words
    assert world.settle() == []


# --- Twins ----------------------------------------------------------------------------------------


def identity(child: Obj) -> tuple[str, str, str]:
    return child["kind"], child["metadata"]["namespace"], child["metadata"]["name"]


def test_twins_of_one_name_share_no_object_and_no_address() -> None:
    here, there = (made(planned("m", namespace)) for namespace in ("a", "b"))
    assert not {identity(child) for child in here} & {identity(child) for child in there}
    assert "b" not in {child["metadata"]["namespace"] for child in here}
    subjects = [s for child in here for s in child.get("subjects", [])]
    assert {subject["namespace"] for subject in subjects} == {"a"}
    gateway = next(c for c in here if c["metadata"]["name"] == "m-gateway" and "spec" in c)
    arguments = gateway["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[0] == "--namespace=a"


def test_a_twin_in_another_namespace_is_never_asked_for() -> None:
    for path in (questions.COMPOSITE_CUSTOMIZE, questions.DECORATOR_CUSTOMIZE):
        body = {"parent": named("m", "a").parent}
        answer = wire.dump(questions.answer(path, body, settings=SETTINGS, now=NOON))
        rules = answer["relatedResources"]
        of_namespaces = [r for r in rules if r["resource"] != "inferenceruntimes"]
        assert of_namespaces
        assert {rule["namespace"] for rule in of_namespaces} == {"a"}


def test_what_a_twin_holds_is_not_taken_for_ones_own() -> None:
    """Though a Metacontroller that asked for too much would send it."""
    world = World()
    world.settle()
    request = world.composite_request()
    for group, members in world.owned.items():
        for key, child in members.items():
            twin = json.loads(json.dumps(child).replace('"ns"', '"elsewhere"'))
            request["related"][group][key.replace("ns/", "elsewhere/")] = twin
    paths = (
        (questions.COMPOSITE_SYNC, request),
        (questions.COMPOSITE_SYNC, world.composite_request()),
    )
    here, alone = (
        wire.dump(questions.answer(path, body, settings=SETTINGS, now=NOON)) for path, body in paths
    )
    assert here == alone


# --- Names that others hold -----------------------------------------------------------------------

CHILDREN = [identity(child) for child in made(planned("m"))]


@pytest.mark.parametrize(("kind", "namespace", "name"), CHILDREN)
@pytest.mark.parametrize("owner", ["a stranger", "another service"])
def test_an_object_that_has_a_childs_name_is_left_alone_and_named(
    kind: str, namespace: str, name: str, owner: str
) -> None:
    world = named("m", **HUB, cache=LOCAL, runtime={"name": "vllm"})
    versions = {c["kind"]: c["apiVersion"] for c in made(planned("m"))}
    holder = {
        "apiVersion": versions[kind],
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": "uid-of-theirs"},
    }
    if owner == "another service":
        by = {"kind": "LLMService", "name": name, "uid": "uid-of-another", "controller": True}
        holder["metadata"]["ownerReferences"] = [by]
    world.foreign.append(holder)
    world.settle()
    assert f"Create {kind} ns/{name}" not in world.writes
    assert not [write for write in world.writes if write.startswith("Delete")]
    if (owner, name) == ("another service", "m"):
        # Of a service of this very name: an earlier one, whose children go by themselves.
        assert world.ready()[2] == "GatewayStarting"
        return
    assert world.ready() == ("Degraded", "False", "ChildNameTaken")
    assert f"{kind} {name}" in world.condition("Degraded")["message"]


def test_a_service_that_is_called_like_anothers_child_is_told_so() -> None:
    """`m` has a Service `m-backend`, and so would a service of that name."""
    world = named("m-backend")
    world.parent["spec"]["runtime"] = {"name": "vllm"}
    theirs = named("m", runtime={"name": "vllm"})
    theirs.settle()
    world.foreign.append(theirs.owned[names.SERVICES]["ns/m-backend"])
    world.foreign[0]["metadata"]["ownerReferences"] = [
        {"kind": "LLMService", "name": "m", "uid": "ns/m", "controller": True}
    ]
    answer = world.ask_composite()
    assert ("Service", "ns", "m-backend") not in {identity(c) for c in answer["children"]}
    (ready,) = (c for c in answer["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "ChildNameTaken"
    assert "Service m-backend" in ready["message"]


# --- Objects that are older than what would refuse them -------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"scaling": {"min": 5, "max": 1}},
        {"scaling": {"activationTimeout": "-1s"}},
        {"model": {"source": {"uri": "s3://bucket/model"}}},
        {"model": {"source": {"uri": "oci://r.example/m:latest"}}},
        {"runtime": {"name": "echo", "selector": {"vendor": ["nvidia"]}}},
        {"imagePullSecrets": [{"name": "A b"}]},
        {"unheard": {"of": 1}},
    ],
)
def test_a_service_that_is_older_than_the_crd_is_checked_all_the_same(spec: Obj) -> None:
    world = World(service(**spec))
    world.settle()
    assert world.ready()[2] == "SpecInvalid"
    assert not any(world.owned.values())


def test_a_service_without_what_an_api_server_fills_in_gets_the_same_children() -> None:
    filled, bare = full(), full()
    filled.parent["spec"]["scaling"] |= {"metric": "queueDepth"}
    filled.parent["spec"]["cache"] |= {"prewarm": False}
    filled.parent["spec"]["endpoint"]["openAICompatible"] = True
    del bare.parent["spec"]["endpoint"]["openAICompatible"]
    for world in (filled, bare):
        world.settle()
    assert filled.owned == bare.owned
