"""What every Deployment and Pod of a service has, whatever its spec says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hooks.llmservice import names
from tests.pure.hooks.scenes import full, with_gateways
from tests.pure.hooks.staging.moments import staging
from tests.pure.hooks.world import Obj, World, example, merged, service, serving


def world_with(runtime: Obj | None = None, **spec: Any) -> World:
    """``runtime`` is laid over the spec of the example's, which has no probes of its own."""
    made = example("runtime")
    made["metadata"]["annotations"] = {}
    made["spec"] = merged(made["spec"] | {"health": {}, "lifecycle": {}}, runtime or {})
    world = World(service(**spec), made)
    world.settle()
    return world


def template(world: World, component: str = "backend") -> Obj:
    found: Obj = world.deployment(component)["spec"]["template"]
    return found


def engine(world: World) -> Obj:
    found: Obj = template(world)["spec"]["containers"][0]
    return found


def templates(world: World) -> Iterator[tuple[str, Obj]]:
    """Of every kind of Pod, by component."""
    for members in world.owned.values():
        for child in members.values():
            if "template" in child.get("spec", {}):
                made = child["spec"]["template"]
                yield made["metadata"]["labels"][names.LABEL_COMPONENT], made["spec"]


def of_every_kind() -> dict[str, Obj]:
    """Pod specs of a service that stages and has several gateways."""
    world = with_gateways(staging(), 2)
    found = dict(templates(world))
    assert set(found) == {"backend", "gateway", "scaler", "prewarm"}
    return found


# --- Probes and deadlines -------------------------------------------------------------------------


def test_a_runtime_without_probes_gets_those_of_the_reference() -> None:
    container = engine(world_with())
    health = {"httpGet": {"path": "/health", "port": "http"}}
    assert container["readinessProbe"]["httpGet"] == health["httpGet"]
    assert container["startupProbe"] == health | {"failureThreshold": 60, "periodSeconds": 10}
    assert "livenessProbe" not in container


def test_a_start_may_take_as_long_as_its_probe_allows_and_what_comes_before_it() -> None:
    probe = {"httpGet": {"port": "http"}, "initialDelaySeconds": 40, "periodSeconds": 7}
    world = world_with({"health": {"startup": probe | {"failureThreshold": 100}}})
    assert world.deployment("backend")["spec"]["progressDeadlineSeconds"] == 40 + 700 + 300
    world = world_with({"health": {"startup": probe | {"failureThreshold": 2**31 - 1}}})
    assert world.deployment("backend")["spec"]["progressDeadlineSeconds"] < 2**31


# --- Drain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lifecycle", "drain", "held", "grace"),
    [
        ({}, "2m", False, 30),
        ({"terminationGracePeriodSeconds": 7}, "2m", False, 7),
        ({"preStopDrain": True}, "2m", True, 130),
        ({"preStopDrain": True}, "1500ms", True, 30),
        ({"preStopDrain": True, "terminationGracePeriodSeconds": 500}, "2m", True, 500),
        ({"preStopDrain": True, "terminationGracePeriodSeconds": 7}, "2m", True, 130),
        ({"preStopDrain": True}, "0s", False, 30),
    ],
)
@pytest.mark.parametrize("metrics", [None, {"queueDepth": "waiting", "running": "running"}])
def test_a_replica_is_held_only_where_its_runtime_drains_and_for_that_its_grace_is_long_enough(
    lifecycle: Obj, drain: str, held: bool, grace: int, metrics: Obj | None
) -> None:
    runtime = {"lifecycle": lifecycle, "metrics": metrics}
    world = world_with(runtime, scaling={"drainTimeout": drain})
    assert ("lifecycle" in engine(world)) is held
    assert template(world)["spec"]["terminationGracePeriodSeconds"] == grace


# --- Memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "limit"), [("64Gi", "32Gi"), ("1000", "500"), ("3", "1"), (None, None)]
)
def test_shared_memory_leaves_the_engine_half_of_its_limit(memory: Any, limit: Any) -> None:
    world = world_with(resources={"memory": memory})
    (mount,) = (m for m in engine(world)["volumeMounts"] if m["mountPath"] == "/dev/shm")
    volumes = {volume["name"]: volume for volume in template(world)["spec"]["volumes"]}
    shared = volumes[mount["name"]]["emptyDir"]
    assert shared == {"medium": "Memory"} | ({"sizeLimit": limit} if limit else {})


# --- Rollouts -------------------------------------------------------------------------------------


def test_an_engine_goes_before_its_successor_comes_and_a_gateway_after() -> None:
    """Accelerators have no spare; a gateway costs nothing and must always be there."""
    world = with_gateways(serving(full()), 2)
    surges = {
        component: world.deployment(component)["spec"]["strategy"]["rollingUpdate"]
        for component in ("backend", "gateway", "scaler")
    }
    assert surges["backend"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert surges["gateway"] == surges["scaler"] == {"maxSurge": 1, "maxUnavailable": 0}


NOT_ABOUT_THE_ENGINE: list[Obj] = [
    {"scaling": {"min": 1, "max": 5, "target": 3}},
    {"scaling": {"activationTimeout": "9m", "scaleDownStabilization": "9m", "drainTimeout": "9m"}},
    {"endpoint": {"maxQueue": 7, "openAICompatible": False}},
    {"endpoint": {"coldStart": {"mode": "reject", "heartbeatInterval": "1s"}}},
    {"endpoint": {"authentication": {"secretRef": {"name": "a", "key": "b"}}}},
    {"endpoint": {"resources": {"limits": {"memory": "2Gi"}}}},
    {"runtime": {"selector": {"vendor": ["nvidia"]}}},
    {
        "scaling": {
            "externalScaler": {"tls": {"serverSecretName": "a", "authenticationRef": {"name": "b"}}}
        }
    },
]


@pytest.mark.parametrize("edit", NOT_ABOUT_THE_ENGINE, ids=json.dumps)
def test_an_edit_that_is_not_about_the_engine_restarts_none(edit: Obj) -> None:
    world = world_with()
    before = template(world)
    world.edit(**edit)
    assert world.settle()
    assert world.ready()[2] == "GatewayStarting"
    assert template(world) == before


def test_what_a_runtime_says_to_others_than_the_engine_restarts_none() -> None:
    world = world_with({"metrics": None})
    before = template(world)
    world.runtimes[0]["spec"] |= {"metrics": {"queueDepth": "q", "ttft": "t"}, "priority": 7}
    world.runtimes[0]["metadata"]["annotations"] |= {
        names.FIRST_BYTE_TIMEOUT: "1m",
        names.INFERENCE_PATHS: "/x",
    }
    assert world.settle()
    assert template(world) == before


@pytest.mark.parametrize(
    "edit",
    [
        {"resources": {"cpu": "3"}},
        {"runtime": {"name": "echo", "argsOverride": ["--x"]}},
        {"imagePullSecrets": [{"name": "a"}]},
        {"model": {"source": {"uri": "hf://other/model"}}},
    ],
)
def test_a_template_is_known_by_its_hash(edit: Obj) -> None:
    world = world_with()
    before = template(world)
    world.edit(**edit)
    world.settle()
    hashes = [
        made["metadata"]["annotations"][names.TEMPLATE_HASH] for made in (before, template(world))
    ]
    assert hashes[0] != hashes[1]


# --- What Pods may -------------------------------------------------------------------------------


def test_no_pod_is_given_the_addresses_of_services_as_variables() -> None:
    """A Service called `vllm` would set VLLM_PORT."""
    assert {made["enableServiceLinks"] for made in of_every_kind().values()} == {False}


def test_only_what_reads_slices_is_given_a_token() -> None:
    given = {
        component: made["automountServiceAccountToken"]
        for component, made in of_every_kind().items()
    }
    assert given == {"backend": False, "gateway": True, "scaler": True, "prewarm": False}


def test_an_engine_may_run_as_whatever_its_image_says_and_gain_nothing() -> None:
    made = of_every_kind()["backend"]
    assert made["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    # The cache's group alone, so that any user can write to it.
    assert made["securityContext"].keys() == {"fsGroup", "fsGroupChangePolicy"}


@pytest.mark.parametrize("component", ["gateway", "scaler", "prewarm"])
def test_our_own_programs_fit_the_restricted_profile(component: str) -> None:
    made = of_every_kind()[component]
    pod = made["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    for container in made["containers"]:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}


def test_what_ends_badly_leaves_its_last_words() -> None:
    """A status quotes them; without the policy a program that writes no file leaves none."""
    for made in of_every_kind().values():
        for container in made["containers"]:
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_gateway_reads_the_slices_of_its_namespace_by_an_account_of_its_own() -> None:
    world = world_with()
    account = template(world, "gateway")["spec"]["serviceAccountName"]
    assert f"ns/{account}" in world.owned["ServiceAccount.v1"]
    binding = world.owned["RoleBinding.rbac.authorization.k8s.io/v1"][f"ns/{account}"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "ns"}]
    assert binding["roleRef"]["name"] == "noctaya-gateway"
