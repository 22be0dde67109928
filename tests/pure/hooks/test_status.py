"""The status table, the failures that stay visible, and the silence of a quiet world (rule 5)."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any

import pytest

from hooks.llmservice import pods
from hooks.llmservice.failures import _ORDER
from hooks.llmservice.reasons import Reason
from tests.pure.hooks.scenes import (
    ENGINE,
    FAILURES,
    at_zero,
    ended,
    failing,
    mistaken,
    scheduled,
    starting,
    waiting,
)
from tests.pure.hooks.world import NOON, Obj, World, service, serving

# --- Rows -----------------------------------------------------------------------------------------


def test_before_a_gateway_is_available() -> None:
    world = World()
    world.settle()
    assert world.ready() == ("Pending", "False", "GatewayStarting")
    assert world.condition("Degraded")["status"] == "False"
    assert world.parent["status"]["endpointURL"] == "http://m.ns.svc/v1"


def test_a_gateway_that_stays_away_is_a_failure_after_two_minutes() -> None:
    world = World()
    world.settle()
    world.gateway_becomes(available=False)
    world.add_pod(
        "m-gateway-1",
        component="gateway",
        containerStatuses=[waiting("ImagePullBackOff") | {"name": "gateway"}],
    )
    world.pass_time(100)
    assert world.ask_composite()["resyncAfterSeconds"] == 21
    world.settle()
    assert world.ready()[2] == "GatewayStarting"
    world.pass_time(21)
    world.settle()
    assert world.ready() == ("Pending", "False", "GatewayNotReady")
    assert world.condition("Degraded")["status"] == "True"
    assert (
        "image engine:1 of container gateway cannot be pulled"
        in world.condition("Ready")["message"]
    )


def test_a_gateway_whose_pods_are_refused_says_who_refuses_them() -> None:
    world = World()
    world.settle()
    world.gateway_becomes(available=False)
    world.deployment("gateway")["status"]["conditions"].append(
        {
            "type": "ReplicaFailure",
            "status": "True",
            "message": 'pods "m-gateway-6d4-x2x4z" is forbidden: exceeded quota: pods',
        }
    )
    world.pass_time(121)
    world.settle()
    assert world.ready() == ("Pending", "False", "GatewayNotReady")
    assert "a Pod is forbidden: exceeded quota: pods" in world.condition("Ready")["message"]


def test_at_zero_all_well_is_ready() -> None:
    world = at_zero()
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")
    assert world.condition("Degraded")["reason"] == "Inactive"
    assert world.condition("AutoscalingReady")["reason"] == "ScaledObjectReady"
    assert world.parent["status"]["replicas"] == 0


def test_at_zero_a_replica_that_still_ends_is_not_passed_over() -> None:
    world = at_zero()
    pod = world.add_pod("m-backend-1", phase="Running")
    pod["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:30Z"
    world.run_composite()
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")
    assert "1 still finishing" in world.condition("Ready")["message"]
    world.pods.clear()
    world.run_composite()
    assert "no accelerator is held" in world.condition("Ready")["message"]


def test_at_zero_without_keda_is_not_ready_and_names_the_poke() -> None:
    world = World()
    world.run_composite()
    world.gateway_becomes(available=True)
    world.run_composite()
    assert world.ready() == ("Pending", "False", "AutoscalerMissing")
    assert "kubectl annotate --overwrite decoratorcontroller" in world.condition("Ready")["message"]


def test_at_zero_kedas_trouble_is_told_in_its_words() -> None:
    world = at_zero()
    world.keda_says("False", "ScaledObjectCheckFailed", "failed to reach the scaler")
    world.settle()
    assert world.ready() == ("Pending", "False", "ScaledObjectCheckFailed")
    assert world.condition("Ready")["message"] == "failed to reach the scaler"


def test_kedas_first_condition_without_a_reason_is_silence() -> None:
    world = at_zero()
    world.scaled_object()["status"] = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    world.settle()
    assert world.ready() == ("Pending", "False", "AutoscalerMissing")


def test_a_serving_model_is_ready_whatever_keda_says() -> None:
    world = serving(World())
    world.keda_says("False", "TriggerError", "the scaler is away")
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
    assert world.condition("AutoscalingReady")["status"] == "False"


def test_a_deleted_backend_is_not_at_zero() -> None:
    world = at_zero()
    del world.owned["Deployment.apps/v1"]["ns/m-backend"]
    world.run_composite()
    assert world.ready() == ("Pending", "False", "Activating")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (None, ("Pending", "False", "Activating")),
        ({}, ("Pending", "False", "Activating")),
        (
            {"conditions": [scheduled("False", "0/1 nodes are available")]},
            ("Pending", "False", "SchedulingDelayed"),
        ),
        ({"conditions": [scheduled()]}, ("Loading", "False", "Starting")),
        (
            {
                "conditions": [scheduled()],
                "containerStatuses": [waiting("ContainerCreating")],
            },
            ("Loading", "False", "Starting"),
        ),
        (
            {
                "conditions": [scheduled()],
                "containerStatuses": [{"name": ENGINE, "state": {"running": {}}}],
            },
            ("Loading", "False", "ModelLoading"),
        ),
    ],
    ids=["no pod", "new", "unschedulable", "scheduled", "creating", "loading"],
)
def test_a_start_is_told_step_by_step(pod: Obj | None, expected: tuple[str, str, str]) -> None:
    world = at_zero()
    world.scale(1)
    if pod is not None:
        world.add_pod("m-backend-1", **pod)
    world.settle()
    assert world.ready() == expected
    assert world.condition("Degraded")["status"] == "False"


def test_the_furthest_replica_tells_how_far_a_start_is() -> None:
    world = at_zero()
    world.scale(2)
    world.add_pod("m-backend-1", conditions=[scheduled("False")])
    world.add_pod("m-backend-2", conditions=[scheduled()])
    world.settle()
    assert world.ready()[2] == "Starting"


# --- Failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failed_start_is_degraded(reason: str) -> None:
    world = failing(reason)
    assert world.ready() == ("Degraded", "False", reason)
    degraded = world.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", reason)
    assert Reason(reason).help in degraded["message"]


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failure_stays_visible_after_its_pods_are_gone(reason: str) -> None:
    world = failing(reason)
    world.scale(0)
    world.pods.clear()
    world.settle()
    assert world.ready() == ("Degraded", "False", reason)
    assert world.condition("Ready")["message"].startswith("last activation failed: ")
    world.scale(1)
    world.settle()
    assert world.ready() == ("Degraded", "False", reason)


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failure_is_over_when_a_replica_is_ready(reason: str) -> None:
    world = failing(reason)
    world.scale(1, ready=1)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
    assert "lastFailure" not in world.parent["status"]
    world.scale(0)
    world.pods.clear()
    world.settle()
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failure_is_over_when_the_template_changes(reason: str) -> None:
    world = failing(reason)
    world.edit(runtime={"name": "echo", "argsOverride": ["--fixed"]})
    world.settle()
    assert world.ready() == ("Pending", "False", "Activating")


def test_the_kubelets_taking_turns_is_one_failure() -> None:
    world = failing("ImagePullFailed")
    (pod,) = world.pods.values()
    pod["status"]["containerStatuses"] = [waiting("ImagePullBackOff", "Back-off pulling image")]
    assert world.settle() == []


def test_any_exit_of_an_engine_is_a_failure() -> None:
    world = at_zero()
    world.scale(1)
    world.add_pod(
        "m-backend-1",
        conditions=[scheduled()],
        containerStatuses=[{"name": ENGINE, "state": ended(0)}],
    )
    world.settle()
    assert world.ready()[2] == "ContainerRestarting"
    assert "exit code 0" in world.condition("Ready")["message"]


def test_the_end_of_the_engines_log_is_told() -> None:
    world = failing("CrashLoopBackOff")
    assert "exit code 1: boom" in world.condition("Ready")["message"]


PROBE: Obj = {
    "httpGet": {"path": "/healthy", "port": "http"},
    "periodSeconds": 2,
    "failureThreshold": 10,
}


@pytest.mark.parametrize(
    ("code", "seconds", "probe", "remarked"),
    [
        pytest.param(137, 19, PROBE, True, id="killed"),
        pytest.param(0, 20, PROBE, True, id="told to end, and ended well"),
        pytest.param(143, 60, PROBE, True, id="after its whole grace, on a busy node"),
        pytest.param(1, 20, PROBE, False, id="a fault of its own"),
        pytest.param(0, 3, PROBE, False, id="sooner"),
        pytest.param(137, 7200, PROBE, False, id="later, as one that was ready"),
        pytest.param(137, 39, PROBE | {"initialDelaySeconds": 20}, True, id="delayed"),
        pytest.param(137, 20, PROBE | {"initialDelaySeconds": 20}, False, id="sooner, delayed"),
        pytest.param(0, 1, PROBE | {"failureThreshold": 1}, False, id="one probe says nothing"),
        pytest.param(137, 19, {}, False, id="no probe"),
    ],
)
def test_an_end_like_the_kubelets_names_the_startup_probe(
    code: int, seconds: int, probe: Obj, remarked: bool
) -> None:
    finished = datetime.timedelta(seconds=seconds) + NOON
    times = {"startedAt": f"{NOON:%FT%TZ}", "finishedAt": f"{finished:%FT%TZ}"}
    pod = {
        "spec": {"containers": [{"name": "engine", "startupProbe": probe}]},
        "status": {
            "containerStatuses": [
                {"name": "engine", "lastState": {"terminated": {"exitCode": code, **times}}}
            ]
        },
    }
    failure = pods.read(pod, "engine").failure
    assert failure is not None
    allowed = 20 + probe.get("initialDelaySeconds", 0)
    words = f"startup probe GET /healthy does not succeed within {allowed} s"
    assert (words in failure.message) is remarked


def test_the_pod_that_says_most_is_told() -> None:
    world = at_zero()
    world.scale(2)
    for index, reason in enumerate(("ContainerRestarting", "OOMKilled")):
        world.add_pod(f"m-backend-{index}", containerStatuses=[FAILURES[reason]])
    world.settle()
    assert world.ready()[2] == "OOMKilled"


def test_every_failure_of_a_pod_has_its_place_in_the_order() -> None:
    of_its_stager = {"PrewarmFailed"}
    assert {reason.value for reason in _ORDER} == set(FAILURES) | of_its_stager


def test_pods_of_an_earlier_template_and_pods_that_end_tell_nothing() -> None:
    world = at_zero()
    world.scale(1)
    for name in ("old", "ending", "evicted"):
        world.add_pod(name, containerStatuses=[FAILURES["OOMKilled"]])
    world.pods["ns/old"]["metadata"]["annotations"] = {}
    world.pods["ns/ending"]["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    world.pods["ns/evicted"]["status"]["phase"] = "Failed"
    world.settle()
    assert world.ready() == ("Pending", "False", "Activating")


def test_pods_that_the_cluster_refuses_are_told_without_a_name_that_changes() -> None:
    world = at_zero()
    world.scale(1)
    for suffix in ("x2x4z", "k8s9d"):
        world.deployment("backend")["status"]["conditions"] = [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "message": f'pods "m-backend-6d4-{suffix}" is forbidden: exceeded quota: gpus',
            }
        ]
        world.settle()
        assert world.ready() == ("Degraded", "False", "PodsForbidden")
    assert "a Pod is forbidden: exceeded quota: gpus" in world.condition("Ready")["message"]
    assert world.settle() == []


def test_a_start_that_takes_too_long_is_a_failure_though_no_deployment_says_so() -> None:
    world = at_zero()
    world.scale(1)
    world.add_pod("m-backend-1", conditions=[scheduled("False", "no gpu is free")])
    deadline = world.deployment("backend")["spec"]["progressDeadlineSeconds"]
    assert deadline == 900
    assert world.ask_composite()["resyncAfterSeconds"] == deadline + 1
    world.pass_time(deadline - 1)
    world.settle()
    assert world.ready()[2] == "SchedulingDelayed"
    world.pass_time(1)
    world.settle()
    assert world.ready() == ("Degraded", "False", "ProgressDeadlineExceeded")
    assert "no gpu is free" in world.condition("Ready")["message"]


def test_a_replica_that_stops_being_ready_is_awaited_from_then_on() -> None:
    world = serving(World())
    pod = world.add_pod("m-backend-1")
    world.pass_time(86_400)
    world.scale(1, ready=0)
    pod["status"] = {
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-06-02T12:00:00Z"}
        ],
        "containerStatuses": [{"name": ENGINE, "started": True, "state": {"running": {}}}],
    }
    world.settle()
    assert world.ready() == ("Loading", "False", "ModelLoading")
    world.pass_time(900)
    world.settle()
    assert world.ready()[2] == "ProgressDeadlineExceeded"


def test_a_claim_that_is_not_bound_is_named_with_its_class() -> None:
    world = serving(
        World(service(cache={"strategy": "NodeLocalPVC", "storageClassName": "nowhere"})),
        replicas=0,
    )
    world.scale(1)
    world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]["status"] = {"phase": "Pending"}
    world.add_pod("m-backend-1", conditions=[scheduled("False", "unbound claims")])
    world.settle()
    assert world.ready()[2] == "SchedulingDelayed"
    assert "StorageClass nowhere" in world.condition("Ready")["message"]
    world.pass_time(60)
    world.settle()
    assert world.ready() == ("Degraded", "False", "CachePending")
    world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]["status"] = {"phase": "Bound"}
    world.scale(1, ready=1)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")


@pytest.mark.parametrize(
    ("strategy", "replicas", "told"),
    [("NodeLocalPVC", 2, True), ("NodeLocalPVC", 1, False), ("SharedPVC", 2, False)],
)
def test_replicas_that_a_claim_holds_on_one_node_are_explained(
    strategy: str, replicas: int, told: bool
) -> None:
    cached = service(cache={"strategy": strategy}, scaling={"max": 2})
    world = serving(World(cached), replicas=0)
    world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]["status"] = {"phase": "Bound"}
    world.scale(replicas)
    world.add_pod("m-backend-1", conditions=[scheduled("False", "node affinity conflict")])
    world.settle()
    assert ("ReadWriteOnce" in world.condition("Ready")["message"]) is told


def test_a_replica_that_finds_no_place_beside_a_ready_one_is_explained() -> None:
    cached = service(cache={"strategy": "NodeLocalPVC"}, scaling={"max": 2})
    world = serving(World(cached))
    world.owned["PersistentVolumeClaim.v1"]["ns/m-cache"]["status"] = {"phase": "Bound"}
    world.scale(2, ready=1)
    world.add_pod("m-backend-2", conditions=[scheduled("False", "Insufficient nvidia.com/gpu")])
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
    message = world.condition("Ready")["message"]
    assert message.startswith("replicas ready: 1, wanted: 2; no node takes the Pod: Insufficient")
    assert "ReadWriteOnce" in message


def test_a_short_demand_against_a_long_start_is_warned_of() -> None:
    world = World(service(scaling={"activationTimeout": "1m", "scaleDownStabilization": "30s"}))
    world.settle()
    assert world.condition("ColdStartBudget")["reason"] == "StartupOutlastsDemand"
    world.edit(scaling={})
    world.settle()
    assert world.condition("ColdStartBudget")["status"] == "True"


# --- Silence --------------------------------------------------------------------------------------


QUIET: dict[str, Callable[[], World]] = {
    "at zero": at_zero,
    "serving": lambda: serving(World()),
    "starting": starting,
    "mistaken": lambda: mistaken(typo=1),
    **{reason: functools.partial(failing, reason) for reason in FAILURES},
}


@pytest.mark.parametrize("name", QUIET)
def test_a_quiet_world_is_silent(name: str) -> None:
    world = QUIET[name]()
    world.settle()
    for _ in range(3):
        world.pass_time(20)
        assert world.settle() == []


def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    world = at_zero()
    since = world.condition("Ready")["lastTransitionTime"]
    world.pass_time(3600)
    world.edit(scaling={"max": 3})
    world.settle()
    assert world.condition("Ready")["lastTransitionTime"] == since
    assert world.condition("Ready")["observedGeneration"] == 2
    world.scale(1)
    world.settle()
    assert world.condition("Ready")["lastTransitionTime"] == "2026-06-01T13:00:00Z"


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        "x",
        {"conditions": "x"},
        {"conditions": [None, {"type": "Ready"}]},
        {"lastFailure": 1},
    ],
)
def test_a_status_of_another_time_is_overwritten(status: Any) -> None:
    world = at_zero()
    world.parent["status"] = status
    world.settle()
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")


def test_every_reason_has_its_help() -> None:
    assert all(reason.help.endswith(".") for reason in Reason)
