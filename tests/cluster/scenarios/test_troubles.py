"""Every failure that a status can tell of, provoked for real, told in words, and recovered from."""

import contextlib
import os

import pytest
import requests

from tests.cluster import layout
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS
from tests.cluster.scenarios.troubles import Trouble, Troubles

# The echo runtime of the scenarios may take 60 s to start; to be scheduled and pulled takes 300 s.
TOO_SLOW_SECONDS = 360.0
GATEWAY_SECONDS = 120.0
DEVICE = "rig.noctaya.io/of-troubles"


@pytest.fixture(scope="module", autouse=True)
def never_starts(troubles: Troubles) -> Trouble:
    """Begun first, for it takes the longest to fail: its engine is alive and never ready."""
    readiness = {"exec": {"command": ["false"]}, "httpGet": None, "periodSeconds": 1}
    return troubles.begin("slow", runtime={"health": {"readiness": readiness}})


@pytest.fixture(scope="module", autouse=True)
def without_gateway(troubles: Troubles) -> Trouble:
    """Begun early as well: its namespace takes no Pod."""
    return troubles.begin("closed", beside=(builders.pod_quota("", 0),))


def test_an_image_that_cannot_be_pulled_is_named(troubles: Troubles) -> None:
    image = "registry.invalid/none:1"
    service = troubles.begin("image", runtime={"container": {"image": image}})
    service.wait_failed("ImagePullFailed", image)
    service.mend_runtime()
    service.endpoint.wait_ready()


def test_a_missing_secret_is_named_and_its_creation_is_enough(troubles: Troubles) -> None:
    source = {"secretKeyRef": {"name": "of-the-hub", "key": "token"}}
    env = [{"name": "HF_TOKEN", "valueFrom": source}]
    service = troubles.begin("secret", runtime={"container": {"env": env}})
    service.wait_failed("ContainerConfigInvalid", "of-the-hub")
    secret = ("create", "secret", "generic", "of-the-hub", "--from-literal=token=x")
    troubles.cluster.kubectl(*secret, f"-n={service.endpoint.namespace}")
    service.endpoint.wait_ready()
    assert service.endpoint.condition("Degraded")["status"] == "False"


def test_an_engine_that_ends_at_once_is_seen_whatever_its_exit_code(troubles: Troubles) -> None:
    args = ["--model={{ .Model.Path }}", "--crash-on-start", "--crash-exit-code=0"]
    service = troubles.begin("crash", runtime={"container": {"args": args}})
    service.wait_failed("CrashLoopBackOff", "kubectl logs")
    service.mend_runtime()
    service.endpoint.wait_ready()


def test_a_health_check_that_asks_a_wrong_path_is_named(troubles: Troubles) -> None:
    """Only an Event says that the kubelet ended the engine, and hooks see no Events."""
    asked = {"httpGet": {"path": "/healthy", "port": "http"}}
    startup = {**asked, "periodSeconds": 2, "failureThreshold": 10}
    service = troubles.begin("path", runtime={"health": {"startup": startup}})
    service.wait_words("Degraded", "startup probe GET /healthy does not succeed within 20 s")
    service.mend_runtime()
    service.endpoint.wait_ready()


def test_an_engine_that_restarts_once_recovers_by_itself(troubles: Troubles) -> None:
    service = troubles.begin("restart")
    service.endpoint.wait_ready()
    (pod,) = service.endpoint.pods()
    # It ends without an answer.
    with troubles.cluster.session() as http, contextlib.suppress(requests.ConnectionError):
        http.post(f"http://{pod['status']['podIP']}:8000/debug/crash", timeout=10)
    service.endpoint.wait_condition("Degraded", "True", "ContainerRestarting")
    service.endpoint.wait_ready()
    assert service.endpoint.condition("Degraded")["status"] == "False"


def test_an_engine_without_the_memory_that_it_needs_says_so(troubles: Troubles) -> None:
    service = troubles.begin("memory", service={"resources": {"memory": "20Mi"}})
    service.wait_failed("OOMKilled", "memory")
    service.edit(resources={"memory": "512Mi"})
    service.endpoint.wait_ready()


def test_a_quota_that_refuses_pods_is_quoted_and_its_end_is_enough(troubles: Troubles) -> None:
    service = troubles.begin("quota", replicas=(0, 1))
    service.endpoint.wait_armed()
    quota = builders.pod_quota(service.endpoint.namespace, 1)
    troubles.cluster.apply(quota)
    namespace = f"-n={service.endpoint.namespace}"

    def counted() -> bool:
        found = troubles.cluster.get("resourcequota", "pods", service.endpoint.namespace) or {}
        return "used" in found.get("status", {})

    troubles.cluster.wait("the quota is in force", counted)
    request = service.endpoint.asking("After the quota")
    service.wait_failed("PodsForbidden", "exceeded quota")
    troubles.cluster.kubectl("delete", "resourcequota", "pods", namespace)
    nudge = ("annotate", "replicaset", "--all", "--overwrite", "rig.noctaya.io/nudged=1")
    troubles.cluster.kubectl(*nudge, namespace)
    assert request.result(timeout=PATIENCE_SECONDS).finished
    service.endpoint.wait_ready()


def test_a_failed_activation_is_remembered_at_zero_and_forgotten_once_one_succeeds(
    troubles: Troubles,
) -> None:
    args = ["--model={{ .Model.Path }}", "--crash-on-start"]
    service = troubles.begin(
        "carried",
        runtime={"container": {"args": args}},
        service={"scaling": {"activationTimeout": "15s"}},
        replicas=(0, 1),
    )
    service.endpoint.wait_armed()
    request = service.endpoint.asking()
    service.wait_failed("CrashLoopBackOff")
    assert not request.result(timeout=PATIENCE_SECONDS).finished
    zero = "the backend is at zero"
    troubles.cluster.wait(zero, lambda: not service.endpoint.pods(), PATIENCE_SECONDS)
    # In one of two words: the last that was seen of the engine may be a restart.
    service.wait_words("Degraded", "last activation failed", "exit code 1")
    service.mend_runtime()
    service.endpoint.wait_condition("Ready", "True", "ScaledToZero")
    assert service.endpoint.ask("At last").finished


def test_a_claim_that_nobody_provides_is_named_and_a_volume_is_enough(troubles: Troubles) -> None:
    storage_class = f"late-{os.urandom(2).hex()}"
    cache = {"strategy": "NodeLocalPVC", "size": "1Gi", "storageClassName": storage_class}
    service = troubles.begin("claim", service={"cache": cache})
    service.wait_failed("CachePending", "claim-cache", seconds=150)
    folder = troubles.cluster.instance.state / "volumes" / storage_class
    folder.mkdir(parents=True)
    inside = str(layout.STATE / "volumes" / storage_class)
    volume = builders.volume(storage_class, storage_class, inside, layout.NODE_NAME)
    troubles.cluster.apply(volume)
    service.endpoint.wait_ready()
    troubles.cluster.kubectl("delete", "persistentvolume", storage_class, "--wait=false")


def test_a_cold_start_tells_how_far_it_is(troubles: Troubles) -> None:
    args = ["--model={{ .Model.Path }}", "--load-seconds=4"]
    service = troubles.begin("phases", runtime={"container": {"args": args}}, replicas=(0, 1))
    service.endpoint.wait_armed()
    assert service.endpoint.ask().finished
    service.endpoint.wait_ready()
    told = service.reasons()
    assert told[0] == "GatewayStarting"
    assert "ScaledToZero" in told
    woken = told[told.index("ScaledToZero") + 1 :]
    assert woken[-2:] == ["ModelLoading", "Available"]
    assert set(woken[:-2]) <= {"Activating", "SchedulingDelayed", "Starting"}


def test_a_node_without_accelerators_is_waited_for_and_an_accelerator_is_enough(
    troubles: Troubles,
) -> None:
    service = troubles.begin("device", runtime={"accelerator": {"resourceName": DEVICE}})
    # The scenarios' runtime asks for no device.
    name = f"inferenceruntime/{service.runtime['metadata']['name']}"
    troubles.cluster.kubectl("annotate", name, "serving.noctaya.io/accelerator-")
    service.endpoint.wait_condition("Ready", "False", "SchedulingDelayed")
    service.wait_words("Ready", DEVICE)
    troubles.cluster.accelerators(DEVICE, 1)
    service.endpoint.wait_ready()


def test_demand_that_is_kept_shorter_than_a_start_may_take_is_warned_of(
    troubles: Troubles,
) -> None:
    short = {"activationTimeout": "10s", "scaleDownStabilization": "0s"}
    service = troubles.begin("budget", service={"scaling": short}, replicas=(0, 1))
    service.endpoint.wait_condition("ColdStartBudget", "False", "StartupOutlastsDemand")
    service.edit(scaling={"activationTimeout": "2m"})
    service.endpoint.wait_condition("ColdStartBudget", "True", "Sufficient")
    service.endpoint.wait_condition("Degraded", "False", "Inactive")


def test_a_namespace_that_takes_no_pod_has_no_gateway_and_says_so(
    without_gateway: Trouble,
) -> None:
    service = without_gateway.endpoint
    service.wait_condition("Degraded", "True", "GatewayNotReady", GATEWAY_SECONDS + 60)
    # A ReplicaSet keeps the words of its first refusal; which one that is, is a race.
    without_gateway.wait_words("Ready", "a Pod is forbidden", "describe replicasets")
    service.cluster.kubectl("delete", "resourcequota", "pods", f"-n={service.namespace}")
    nudge = ("annotate", "replicaset", "--all", "--overwrite", "rig.noctaya.io/nudged=1")
    service.cluster.kubectl(*nudge, f"-n={service.namespace}")
    service.wait_ready()
    assert without_gateway.reasons()[0] == "GatewayStarting"


def test_an_engine_that_never_gets_ready_is_given_up_waiting_for(never_starts: Trouble) -> None:
    never_starts.wait_failed("ProgressDeadlineExceeded", seconds=TOO_SLOW_SECONDS)
    never_starts.mend_runtime(health={"readiness": {"exec": None}})
    never_starts.endpoint.wait_ready()
