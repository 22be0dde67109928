"""What must hold of every answer to a `LivingWorld`, and of what is written because of it."""

from __future__ import annotations

import copy
import json

from hooks import wire
from hooks.k8s import objects
from hooks.llmservice import formation, names, table
from hooks.llmservice import sync as llmservice
from hooks.llmservice.plan import Plan, Staging
from tests.cluster.standin import plan
from tests.pure.hooks import life
from tests.pure.hooks.life import Asked, LivingWorld
from tests.pure.hooks.world import COMPOSITE_KINDS, Obj, example, service

# What only several gateways have.
OF_SEVERAL = {(names.DEPLOYMENTS, "ns/m-scaler"), (names.DISRUPTION_BUDGETS, "ns/m-gateway")}
BACKEND = (names.DEPLOYMENTS, "ns/m-backend")


def told(world: LivingWorld, body: Obj) -> str:
    request = wire.load(wire.CompositeRequest, body)
    answer = llmservice.sync(request, settings=world.settings, now=world.now)
    return objects.compact(wire.dump(answer))


def settle(world: LivingWorld) -> None:
    """Both controllers see the present until neither writes; it must come to that."""
    for _ in range(12):
        before = len(world.writes)
        check_composite(world, world.sync_composite(world.composite_request()))
        check_decorator(world.sync_decorator(world.decorator_request()))
        if len(world.writes) == before:
            return
    raise AssertionError(f"the controllers do not come to rest: {world.writes[-20:]}")


def do_a_clusters_part(world: LivingWorld) -> None:
    """Programs start, the Job ends, and KEDA is content."""
    for component in ("gateway", "scaler"):
        if f"ns/m-{component}" in world.owned[names.DEPLOYMENTS]:
            world.roll_out(component)
    if "ns/m-prewarm" in world.owned[names.JOBS] and "status" not in world.job():
        world.job_ends(complete=True)
    if world.kedas() is not None:
        world.keda_says("True", "ScaledObjectReady", "")


def check_composite(world: LivingWorld, asked: Asked) -> None:
    """The design's rules about one answer, and about what is written because of it."""
    request = wire.load(wire.CompositeRequest, copy.deepcopy(asked.body))
    decision = llmservice.decide(request, settings=world.settings, now=world.now)
    children = asked.answer["children"]
    if isinstance(decision.outcome, Plan):
        world.resolved = asked.body["parent"]["spec"]
    missing = life.observed_keys(asked.body["children"]) - life.keys_of(children)
    assert missing <= OF_SEVERAL
    check_status(asked)
    backend = next((c for c in children if life.key_of(c) == BACKEND), None)
    observed = asked.body["children"][names.DEPLOYMENTS].get("ns/m-backend")
    if backend is not None:
        check_replicas(asked, backend, observed, decision)
    if isinstance(decision.outcome, Plan):
        check_strangers(asked)
        check_formation(children)
    else:
        assert missing == set()
        check_nothing_changes(asked)


def check_replicas(
    asked: Asked, backend: Obj, observed: Obj | None, decision: llmservice.Decision
) -> None:
    number, outcome = backend["spec"].get("replicas"), decision.outcome
    usable = decision.arrangement.weights.usable
    if observed is None:
        assert isinstance(outcome, Plan)
        assert number == (outcome.spec.scaling.min if usable else 0)
        return
    handed_over = objects.annotation(observed, names.REPLICAS_OWNER) == names.KEDA
    if handed_over or not usable or not isinstance(outcome, Plan):
        assert number == observed["spec"]["replicas"]
    else:
        assert number in (observed["spec"]["replicas"], outcome.spec.scaling.min)
    annotated = objects.annotation(asked.body["parent"], names.AUTOSCALING) or "{}"
    if handed_over or ("withheld" not in json.loads(annotated) and annotated != "{}"):
        assert objects.annotation(backend, names.REPLICAS_OWNER) == names.KEDA
    # A merged list keeps the order that it had; what was applied is what counts.
    before = objects.last_applied(observed) or observed
    changed = backend["spec"].get("template") != before["spec"].get("template")
    if changed and isinstance(outcome, Plan) and isinstance(outcome.staging, Staging):
        assert usable, "the engine rolls onto weights that are not there"


def check_nothing_changes(asked: Asked) -> None:
    """Of a spec that does not resolve: but for the mark of KEDA's, children stay as they are."""
    for child in asked.answer["children"]:
        group, name = life.key_of(child)
        observed = asked.body["children"][group][name]
        remembered = copy.deepcopy(objects.last_applied(observed)) or {}
        child = copy.deepcopy(child)
        if (group, name) == BACKEND:
            remembered["spec"].pop("replicas", None)
            child["spec"].pop("replicas", None)
            for obj in (remembered, child):
                annotations = obj["metadata"].pop("annotations", {})
                annotations.pop(names.REPLICAS_OWNER, None)
                obj["metadata"] |= {"annotations": annotations} if annotations else {}
        assert objects.compact(child) == objects.compact(remembered)
    for action, _ in asked.written:
        assert isinstance(action, plan.Update)
        assert life.key_of(action.obj) == BACKEND


def check_strangers(asked: Asked) -> None:
    """None is among the children of a spec that resolves, whatever its name."""
    uid = asked.body["parent"]["metadata"]["uid"]
    strangers = {
        life.key_of(obj)
        for kind in COMPOSITE_KINDS
        for obj in asked.body["related"].get(kind, {}).values()
        if objects.controller_of(obj).get("uid") != uid
    }
    assert strangers & life.keys_of(asked.answer["children"]) == set()


def check_formation(children: list[Obj]) -> None:
    """KEDA is led to somebody who is there and knows the demand of all gateways."""
    held = {life.key_of(child): child for child in children}
    gateway = held.get((names.DEPLOYMENTS, "ns/m-gateway"))
    service_of_keda = held.get((names.SERVICES, "ns/m-scaler"))
    if gateway is None or service_of_keda is None:
        return  # A stranger has the name.
    component = service_of_keda["spec"]["selector"][names.LABEL_COMPONENT]
    if gateway["spec"]["replicas"] > 1:
        assert formation.leaves_keda_alone(gateway)
        assert component == "scaler"


def check_status(asked: Asked) -> None:
    status = asked.answer["status"]
    ready = objects.condition({"status": status}, "Ready")
    row = table.row_of(status)
    assert row.ready == ready["status"]
    before = objects.condition(asked.body["parent"], "Ready")
    if before.get("status") == ready["status"]:
        assert before["lastTransitionTime"] == ready["lastTransitionTime"]
    if status["phase"] == "ScaledToZero":
        assert status["replicas"] == 0
        assert objects.condition({"status": status}, "AutoscalingReady")["status"] == "True"


def check_decorator(asked: Asked) -> None:
    missing = life.observed_keys(asked.body["attachments"]) - life.keys_of(
        asked.answer["attachments"]
    )
    assert missing == set(), "a ScaledObject that goes takes the replicas of a serving model"
    backend = asked.body["related"][names.DEPLOYMENTS].get("ns/m-backend", {})
    for action, before in asked.written:
        assert not isinstance(action, plan.Delete)
        if before is None:
            owner = objects.annotation(backend, names.REPLICAS_OWNER)
            assert owner == names.KEDA, "KEDA is given a number that the Composite still sets"


def check_that_all_ends_well(world: LivingWorld) -> None:
    """Somebody reads the status and does what it says, and the cluster does its part."""
    world.foreign.clear()
    world.runtimes = [example("runtime")]
    good = service()["spec"]
    world.edit(**{key: good.get(key, {}) for key in ("endpoint", "model", "runtime", "cache")})
    world.edit(scaling={"max": 2})
    world.parent["metadata"].setdefault("annotations", {})[names.GATEWAY_REPLICAS] = "2"
    for name in world.pods:
        world.pods[name]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    for _ in range(8):
        settle(world)
        do_a_clusters_part(world)
    if world.kedas() is not None:
        world.set_replicas(0)
    world.pods.clear()
    world.scale(1, ready=1)
    settle(world)
    assert world.ready() == ("Ready", "True", "Available")
    world.scale(0)
    settle(world)
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")
    assert world.deployment("gateway")["spec"]["replicas"] == 2
    assert world.condition("AutoscalingReady")["status"] == "True"
