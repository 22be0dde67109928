"""A user's mistake never deletes or changes anything (rules 1, 4 and 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hooks import wire
from hooks.llmservice import annotations as ours
from hooks.llmservice import names
from hooks.llmservice.sync import sync
from tests.pure.hooks import golden
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, service, serving

MISTAKES: dict[str, dict[str, Any]] = {
    "unknown field": {"scalin": {}},
    "bad uri": {"model": {"source": {"uri": "hf://nobody"}}},
    "s3": {"model": {"source": {"uri": "s3://bucket/key"}}},
    "no runtime of that name": {"runtime": {"name": "missing"}},
    "no runtime at all": {"runtime": {}},
    "minimum over maximum": {"scaling": {"min": 9, "max": 2}},
    "bad duration": {"scaling": {"drainTimeout": "soon"}},
    "catalog": {"model": {"catalogRef": "x"}},
    "fraction": {"resources": {"fraction": {"memory": "1Gi"}}},
    "kvCacheUtil": {"scaling": {"metric": "kvCacheUtil"}},
    "baked image": {"cache": {"strategy": "BakedImage"}},
    "revision without staging": {"model": {"source": {"uri": "hf://org/name@main"}}},
    "artifact without a cache": {
        "model": {"source": {"uri": "oci://r/x@sha256:" + "0" * 64}},
        "cache": {"strategy": "None"},
    },
    "prewarm without a cache": {"cache": {"strategy": "None", "prewarm": True}},
    "prewarm of a claim": {
        "model": {"source": {"uri": "pvc://c"}},
        "cache": {"strategy": "SharedPVC", "prewarm": True},
    },
    "secret for a hub": {"model": {"source": {"uri": "hf://o/n", "secretRef": {"name": "s"}}}},
}
EACH_MISTAKE = pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))


def children(world: World) -> Obj:
    copied: Obj = json.loads(json.dumps(world.owned | world.attached))
    return copied


@EACH_MISTAKE
def test_a_mistake_changes_no_child_of_a_serving_model(mistake: dict[str, Any]) -> None:
    world = serving(World(service(scaling={"min": 2, "max": 3})), replicas=2)
    before = children(world)
    world.edit(**mistake)
    assert set(world.settle()) == {"status"}
    assert children(world) == before
    phase, ready, _ = world.ready()
    assert (phase, ready) == ("Ready", "False")
    assert world.condition("Ready")["message"]


@pytest.mark.parametrize(
    ("edit", "value"),
    [
        ({"model": {"source": {"uri": "hf://nobody"}}}, "2"),
        ({"endpoint": {"resources": {"limits": {"memory": "1Mi"}}}}, "2"),
        ({}, "two"),
    ],
)
def test_an_edit_beside_a_mistake_reaches_neither_controller(edit: Obj, value: str) -> None:
    parent = service()
    parent["metadata"]["annotations"] = {names.GATEWAY_REPLICAS: "2"}
    world = serving(World(parent))
    before = children(world)
    world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS] = value
    world.edit(**edit, scaling={"max": 9})
    assert set(world.settle()) == {"status"}
    assert children(world) == before


@EACH_MISTAKE
def test_kedas_number_survives_a_mistake(mistake: dict[str, Any]) -> None:
    world = serving(World())
    world.edit(**mistake)
    for number in (3, 0, 1):
        world.scale(number)
        world.settle()
        assert world.deployment("backend")["spec"]["replicas"] == number


@EACH_MISTAKE
def test_a_new_service_with_a_mistake_makes_nothing(mistake: dict[str, Any]) -> None:
    world = World(service(**mistake))
    assert world.settle() == ["status"]


@EACH_MISTAKE
def test_a_repaired_mistake_leaves_no_trace(mistake: dict[str, Any]) -> None:
    world = serving(World())
    before, spec = children(world), dict(world.parent["spec"])
    world.edit(**mistake)
    world.settle()
    world.parent["spec"] = spec
    world.parent["metadata"]["generation"] += 1
    world.settle()
    assert children(world) == before
    assert world.ready() == ("Ready", "True", "Available")


def test_without_keda_a_mistake_keeps_what_somebody_scaled() -> None:
    world = World(service(scaling={"min": 2, "max": 3}))
    world.run_composite()
    world.gateway_becomes(available=True)
    world.scale(3, ready=3)
    world.edit(typo=1)
    world.run_composite()
    assert world.deployment("backend")["spec"]["replicas"] == 3


def test_a_deleted_runtime_changes_nothing_and_stays_named() -> None:
    world = serving(World())
    before = children(world)
    world.runtimes.clear()
    world.settle()
    assert children(world) == before
    assert world.ready() == ("Ready", "False", "RuntimeNotFound")
    assert world.parent["status"]["resolvedRuntime"] == "echo"


def test_a_broken_runtime_changes_nothing_and_is_quoted() -> None:
    world = serving(World())
    before = children(world)
    world.runtimes[0]["spec"]["container"]["args"] = ["{{ messages }}"]
    world.settle()
    assert children(world) == before
    assert world.ready()[2] == "RuntimeInvalid"
    assert "'{{ messages }}'" in world.condition("Ready")["message"]


def test_a_missing_runtime_that_comes_later_is_used_without_an_edit() -> None:
    world = World()
    runtimes, world.runtimes = world.runtimes, []
    world.settle()
    assert world.ready() == ("Pending", "False", "RuntimeNotFound")
    world.runtimes = runtimes
    world.settle()
    assert world.deployment("backend")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a" * 55, "must have at most 54 characters"),
        ("1a", "a letter first"),
        ("a.b", "lower-case letters, digits and dashes only"),
        ("a-", "no dash last"),
        ("größe", "lower-case letters"),
    ],
)
def test_a_name_that_fits_no_child_is_explained(name: str, sentence: str) -> None:
    world = World()
    world.parent["metadata"]["name"] = name
    answer = world.ask_composite()
    assert answer["children"] == []
    (ready,) = (c for c in answer["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "NameInvalid"
    assert sentence in ready["message"]


@pytest.mark.parametrize("value", ["", "0", "two", "1.5", "-1"])
def test_a_bad_gateway_replicas_annotation_is_a_mistake(value: str) -> None:
    world = serving(World())
    world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS] = value
    assert set(world.settle()) == {"status"}
    assert world.ready()[2] == "SpecInvalid"


# --- Annotations ----------------------------------------------------------------------------------


def annotate(world: World, **values: str) -> None:
    """As a user does, under our own prefix."""
    world.parent["metadata"].setdefault("annotations", {}).update(
        {f"serving.noctaya.io/{name.replace('_', '-')}": value for name, value in values.items()}
    )


def test_a_misspelt_annotation_is_told_and_changes_nothing() -> None:
    """Whatever its right spelling had brought about before, as after a slip in an edit."""
    parent = service()
    parent["metadata"]["annotations"] = {names.GATEWAY_REPLICAS: "2"}
    world = serving(World(parent))
    before = children(world)
    del world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS]
    annotate(world, gatway_replicas="2")
    assert set(world.settle()) == {"status"}
    assert children(world) == before
    assert world.ready() == ("Ready", "False", "SpecInvalid")
    assert world.condition("Ready")["message"] == (
        "annotation serving.noctaya.io/gatway-replicas: unknown annotation; did you mean"
        " gateway-replicas?"
    )


def test_an_edit_beside_an_unknown_annotation_waits_for_it() -> None:
    """A newer release's, after the way back to this one: what it was made into stays."""
    world = serving(World())
    annotate(world, of_a_newer_release="x")
    before = children(world)
    world.edit(scaling={"max": 7})
    assert set(world.settle()) == {"status"}
    assert children(world) == before
    del world.parent["metadata"]["annotations"]["serving.noctaya.io/of-a-newer-release"]
    world.settle()
    assert world.scaled_object()["spec"]["maxReplicaCount"] == 7
    assert world.ready() == ("Ready", "True", "Available")


def test_every_mistake_in_annotations_and_spec_is_told_at_once() -> None:
    world = World(service(scalin={}))
    annotate(world, Data_heartbeats="true", accelerator="none", zzz="")
    world.settle()
    assert world.condition("Ready")["message"].split("; annotation ") == [
        "annotation serving.noctaya.io/Data-heartbeats: unknown annotation; did you mean"
        " data-heartbeats?",
        "serving.noctaya.io/accelerator: has no meaning on an LLMService; it is for an"
        " InferenceRuntime",
        "serving.noctaya.io/zzz: unknown annotation; an LLMService takes gateway-replicas,"
        " data-heartbeats; spec.scalin: unknown field; did you mean scaling?",
    ]


def test_what_no_schema_sees_is_told_at_once() -> None:
    limit = {"resources": {"limits": {"memory": "1Mi"}}}
    world = World(service(model={"source": {"uri": "hf://nobody"}}, endpoint=limit))
    annotate(world, zzz="", gateway_replicas="two", data_heartbeats="maybe")
    world.settle()
    message = world.condition("Ready")["message"]
    assert "io/zzz: unknown annotation" in message
    assert "gateway-replicas: found 'two'" in message
    assert "data-heartbeats: found 'maybe'" in message
    assert "spec.model.source.uri: 'hf://nobody'" in message
    assert "spec.endpoint.resources.limits.memory is 1Mi" in message


@pytest.mark.parametrize(
    "name",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "metacontroller.k8s.io/last-applied-configuration",
        "argocd.argoproj.io/tracking-id",
        "noctaya.io/gatway-replicas",
        "x.serving.noctaya.io/y",
        "serving.noctaya.io",
        "gateway-replicas",
    ],
)
def test_annotations_that_are_not_under_our_prefix_are_not_our_concern(name: str) -> None:
    world = World()
    world.parent["metadata"]["annotations"] = {name: "x"}
    world.settle()
    assert world.ready()[2] == "GatewayStarting"


def test_what_our_own_hooks_write_on_a_service_is_no_mistake() -> None:
    written = {
        name
        for case in golden.cases()
        for name in golden.answer(golden.request(case)).get("annotations", {})
    }
    assert written
    world = World()
    world.parent["metadata"]["annotations"] = dict.fromkeys(written, "{}")
    assert not ours.mistakes(world.parent, "LLMService")


# --- Runtimes -------------------------------------------------------------------------------------


def runtime(world: World, name: str, *, vendor: str = "nvidia", priority: int = 0) -> Obj:
    made: Obj = json.loads(json.dumps(world.runtimes[0]))
    made["metadata"]["name"] = name
    made["spec"] |= {"vendor": vendor, "priority": priority}
    return made


def test_a_selector_takes_the_first_vendor_that_has_a_usable_runtime() -> None:
    world = World(service(runtime={"selector": {"vendor": ["ascend", "nvidia"]}}))
    broken = runtime(world, "broken", vendor="ascend")
    broken["spec"]["container"] = {}
    world.runtimes.append(broken)
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == "echo"
    world.runtimes.append(runtime(world, "npu", vendor="ascend"))
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == "npu"


def test_a_selector_takes_the_highest_priority_and_names_a_tie() -> None:
    world = World(service(runtime={"selector": {"vendor": ["nvidia"]}}))
    world.runtimes.append(runtime(world, "better", priority=5))
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == "better"
    world.runtimes.append(runtime(world, "equal", priority=5))
    assert set(world.settle()) == {"status"}
    assert world.ready()[2] == "RuntimeAmbiguous"
    assert "better, equal" in world.condition("Ready")["message"]


@pytest.mark.parametrize("loss", ["deleted", "broken"])
def test_a_runtime_that_is_lost_moves_no_service_to_another(loss: str) -> None:
    world = serving(World(service(runtime={"selector": {"vendor": ["ascend", "nvidia"]}})))
    world.runtimes.append(runtime(world, "npu", vendor="ascend", priority=1))
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == "npu"
    before = children(world)
    if loss == "deleted":
        del world.runtimes[-1]
    else:
        world.runtimes[-1]["spec"]["container"]["args"] = ["{{x}}"]
    world.settle()
    assert children(world) == before
    assert world.ready()[2] == ("RuntimeNotFound" if loss == "deleted" else "RuntimeInvalid")
    assert "edit spec.runtime to use echo" in world.condition("Ready")["message"]
    assert world.parent["status"]["resolvedRuntime"] == "npu"
    world.edit(runtime={"selector": {"vendor": ["nvidia"]}})
    world.settle()
    assert world.parent["status"]["resolvedRuntime"] == "echo"
    assert world.ready()[1] == "True"


def test_a_selector_whose_only_runtime_is_broken_says_what_is_wrong_with_it() -> None:
    world = World(service(runtime={"selector": {"vendor": ["nvidia"]}}))
    world.runtimes[0]["spec"]["container"]["args"] = ["{{x}}"]
    world.settle()
    assert world.ready()[2] == "RuntimeInvalid"
    assert "'{{x}}'" in world.condition("Ready")["message"]


def test_a_selector_without_any_runtime_says_so() -> None:
    world = World(service(runtime={"selector": {"vendor": ["ascend"]}}))
    world.settle()
    assert world.ready()[2] == "RuntimeNotFound"


@pytest.mark.parametrize(
    ("annotation", "value", "sentence"),
    [
        (names.ACCELERATOR, "some", "the only value is 'none'"),
        (names.INFERENCE_PATHS, "/a, b", "'b' is no path"),
        (names.IDLE_TIMEOUT, "soon", "'soon' is not a duration"),
        (names.FIRST_BYTE_TIMEOUT, "0s", "must be more than zero"),
    ],
)
def test_a_bad_annotation_of_a_runtime_is_quoted(
    annotation: str, value: str, sentence: str
) -> None:
    world = World()
    world.runtimes[0]["metadata"]["annotations"][annotation] = value
    world.settle()
    assert world.ready()[2] == "RuntimeInvalid"
    assert sentence in world.condition("Ready")["message"]


def test_a_metrics_port_that_the_container_does_not_have_is_refused() -> None:
    world = World()
    world.runtimes[0]["spec"]["metrics"]["port"] = "metrics"
    world.settle()
    assert "'metrics' is no port of the container" in world.condition("Ready")["message"]


# --- Names that are taken -------------------------------------------------------------------------


def stranger(kind: str, name: str, api_version: str = "v1", owner: Obj | None = None) -> Obj:
    metadata: Obj = {"name": name, "namespace": "ns", "uid": "x"}
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True, **owner}]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def test_a_strangers_service_is_left_alone_and_named() -> None:
    world = World()
    world.foreign.append(stranger("Service", "m"))
    world.settle()
    assert "Create Service ns/m" not in world.writes
    assert world.ready() == ("Degraded", "False", "ChildNameTaken")
    assert "Service m" in world.condition("Degraded")["message"]
    world.foreign.clear()
    world.settle()
    assert "Create Service ns/m" in world.writes


def test_a_serving_model_behind_a_strangers_service_is_not_called_ready() -> None:
    world = serving(World())
    del world.owned["Service.v1"]["ns/m"]
    world.foreign.append(stranger("Service", "m"))
    world.settle()
    assert world.ready() == ("Degraded", "False", "ChildNameTaken")


def test_the_children_of_an_earlier_namesake_are_waited_for() -> None:
    world = World()
    owner = {"kind": "LLMService", "name": "m", "uid": "uid-of-the-earlier-m"}
    world.foreign.append(stranger("Deployment", "m-gateway", "apps/v1", owner))
    world.settle()
    assert world.ready() == ("Pending", "False", "GatewayStarting")
    assert "earlier service of this name" in world.condition("Ready")["message"]


def test_an_object_of_ours_that_is_not_claimed_yet_keeps_its_number() -> None:
    world = serving(World(), replicas=2)
    request = world.composite_request()
    del request["children"]["Deployment.apps/v1"]["ns/m-backend"]
    answer = wire.dump(sync(wire.load(wire.CompositeRequest, request), settings=SETTINGS, now=NOON))
    (backend,) = (
        child
        for child in answer["children"]
        if child["kind"] == "Deployment" and child["metadata"]["name"] == "m-backend"
    )
    assert backend["spec"]["replicas"] == 2


# --- Storage --------------------------------------------------------------------------------------

CACHED = {"cache": {"strategy": "NodeLocalPVC", "size": "10Gi", "storageClassName": "fast"}}


def test_a_claim_is_made_once_with_a_hash_of_what_was_asked_for() -> None:
    world = World(service(**CACHED))
    world.settle()
    claim = world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "fast",
    }
    assert names.SPEC_HASH in claim["metadata"]["annotations"]


@pytest.mark.parametrize(
    "change",
    [{"size": "20Gi"}, {"storageClassName": "slow"}, {"strategy": "SharedPVC"}],
    ids=["size", "class", "strategy"],
)
def test_another_claim_is_refused_and_says_what_to_delete(change: dict[str, str]) -> None:
    world = serving(World(service(**CACHED)))
    before = children(world)
    world.edit(cache=CACHED["cache"] | change)
    assert set(world.settle()) == {"status"}
    assert children(world) == before
    assert world.ready()[2] == "CacheSpecChanged"
    assert "kubectl delete pvc m-cache" in world.condition("Ready")["message"]


def test_another_spelling_of_the_size_is_the_same_claim() -> None:
    world = serving(World(service(**CACHED)))
    world.edit(cache=CACHED["cache"] | {"size": "10240Mi"})
    assert world.settle() == ["status"]
    assert world.ready()[2] == "Available"


def test_a_claim_stays_when_the_spec_no_longer_asks_for_it() -> None:
    world = serving(World(service(**CACHED)))
    claim = dict(world.owned["PersistentVolumeClaim.v1"])
    world.edit(cache={"strategy": "None"})
    world.settle()
    assert world.owned["PersistentVolumeClaim.v1"] == claim
    assert world.ready()[2] == "Available"


@pytest.mark.parametrize("name", ["\u00e9", "a\x00", "a\tb", "A=B", ""])
def test_a_variable_whose_name_no_api_server_takes_is_refused(name: str) -> None:
    world = World()
    world.runtimes[0]["spec"]["container"]["env"] = [{"name": name, "value": "x"}]
    world.settle()
    assert world.ready()[2] == "RuntimeInvalid"
    assert "spec.container.env[0].name" in world.condition("Ready")["message"]


def test_a_condition_stays_readable_whatever_it_quotes() -> None:
    world = World()
    world.runtimes[0]["metadata"].setdefault("annotations", {})[names.INFERENCE_PATHS] = "x" * 10**5
    world.settle()
    message = world.condition("Ready")["message"]
    assert len(message) < 5000
    assert message.startswith(
        "InferenceRuntime echo: annotation serving.noctaya.io/inference-paths"
    )
    assert message.endswith("is no path; expected /like/this")
    words = {"ready": "False", "reason": "X" * 2000, "message": "y" * 10**5}
    world.parent["metadata"].setdefault("annotations", {})[names.AUTOSCALING] = json.dumps(words)
    world.run_composite()
    autoscaling = world.condition("AutoscalingReady")
    assert autoscaling["reason"] == "Unknown"
    assert len(autoscaling["message"]) < 5000
