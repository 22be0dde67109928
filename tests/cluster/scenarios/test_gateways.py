"""Several gateways with one scaler: each may be lost, restarted, added and taken away."""

import concurrent.futures
import json
import threading
import time

import pytest
import requests

from tests.cluster import cluster as running
from tests.cluster import errors
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import PATIENCE_SECONDS, Answer, Endpoint, is_ready

REPLICAS = "serving.noctaya.io/gateway-replicas"
TWO: Object = {"metadata": {"annotations": {REPLICAS: "2"}}}

# Of one gateway, in a cold start.
HELD = 3

# For so long a Pod may take to start before the status calls it trouble.
STUCK_SECONDS = 120 + PATIENCE_SECONDS


@pytest.fixture(scope="module")
def two(start: Start) -> Endpoint:
    """Two gateways, and an engine that takes 4 s to load."""
    return start("two", "echo-slow", overlay=TWO)


@pytest.fixture(scope="module")
def restarted(start: Start, installed: running.Cluster) -> Endpoint:
    """Two gateways, and an engine that loads for as long as they take to be replaced."""
    installed.apply(builders.runtime("echo-slower", load_seconds=25))
    return start("restarted", "echo-slower", overlay=TWO)


@pytest.fixture(scope="module")
def resized(start: Start) -> Endpoint:
    return start("resized", "echo-steady", idle_seconds=10)


@pytest.fixture(scope="module")
def kept_from_two(start: Start) -> Endpoint:
    """One gateway, in a namespace that has no room for so small a Pod as a scaler's."""
    service = start("kept", beside=(_least_memory(),))
    service.wait_armed()
    _annotate(service, "2")
    return service


@pytest.fixture(scope="module", autouse=True)
def _all_at_once(
    two: Endpoint, restarted: Endpoint, resized: Endpoint, kept_from_two: Endpoint
) -> None:
    """Their starts overlap."""


@pytest.mark.parametrize("victim", ["gateway-0", "gateway-1", "scaler"])
def test_a_crash_in_a_cold_start_loses_only_what_the_crashed_one_held(
    two: Endpoint, victim: str
) -> None:
    two.wait_armed()
    gateways = _gateways(two, 2)
    since = two.cluster.audit.mark()
    held = [[two.at(pod).asking("Hold the line") for _ in range(HELD)] for pod in gateways]
    two.cluster.wait("the replica starts", two.pods)
    component, _, number = victim.partition("-")
    lost = int(number) if number else None
    two.cluster.crash(two.pods("scaler")[0] if lost is None else gateways[lost])
    for index, requests_of_one in enumerate(held):
        outcomes = [_outcome(request) for request in requests_of_one]
        if index == lost:
            assert not any(isinstance(o, Answer) and o.finished for o in outcomes), outcomes
        else:
            assert all(isinstance(o, Answer) and o.finished for o in outcomes), outcomes
    assert two.replica_numbers(since) == [1]
    # The crashed one is back, and all is as before.
    two.cluster.wait(f"the {component} is back", lambda: is_ready(two.pods(component)[-1]))
    assert two.ask("And again").finished


def test_a_rolling_restart_of_gateways_loses_no_held_request(restarted: Endpoint) -> None:
    restarted.wait_armed()
    before = {pod["metadata"]["uid"] for pod in _gateways(restarted, 2)}
    since = restarted.cluster.audit.mark()
    held = [restarted.asking(f"request {number}") for number in range(2 * HELD)]
    restarted.cluster.wait("the replica starts", restarted.pods)
    restarted.cluster.kubectl(
        "rollout", "restart", "deployment/restarted-gateway", f"-n={restarted.namespace}"
    )

    def renewed() -> bool:
        # Requests keep coming meanwhile.
        held.append(restarted.asking(f"request {len(held)}"))
        time.sleep(0.4)
        ready = [pod for pod in restarted.pods("gateway") if is_ready(pod)]
        return len(ready) == 2 and not before & {pod["metadata"]["uid"] for pod in ready}

    restarted.cluster.wait("both gateways are new", renewed)
    assert not any(request.done() for request in held), "the model was there too early to tell"
    for number, request in enumerate(held):
        answer = request.result(PATIENCE_SECONDS)
        assert (answer.status, answer.finished) == (200, True), (number, answer)
        assert f"request {number}" in answer.text
    assert restarted.replica_numbers(since) == [1]


def test_a_second_gateway_comes_and_goes_while_the_model_stays_up(resized: Endpoint) -> None:
    resized.wait_armed()
    assert resized.ask(max_tokens=5).finished
    resized.wait_ready()
    since = resized.cluster.audit.mark()
    before = {pod["metadata"]["uid"] for pod in resized.pods()}
    attached = resized.scaled_object()["metadata"]["uid"]
    stop = threading.Event()
    client = resized.asking_on(stop)
    try:
        for number in (2, 1):
            _annotate(resized, str(number))
            _gateways(resized, number)
            resized.cluster.wait(
                "KEDA is connected", lambda: resized.scaler()["scalerConnected"], PATIENCE_SECONDS
            )
            # Long enough for KEDA to take the model away, were it not told of the client.
            time.sleep(25)
            resized.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    finally:
        stop.set()
    answers = client.result(PATIENCE_SECONDS)
    assert len(answers) > 20
    assert all(answer.status == 200 and answer.finished for answer in answers)
    assert {pod["metadata"]["uid"] for pod in resized.pods()} == before
    assert resized.replica_numbers(since) in ([], [1])
    assert resized.scaled_object()["metadata"]["uid"] == attached
    assert resized.cluster.get("deployment", "resized-scaler", resized.namespace) is None
    assert resized.deletions(since) == {"deployments": 1, "poddisruptionbudgets": 1}
    resized.wait_armed()


def test_an_eviction_of_the_second_gateway_waits_for_the_first(two: Endpoint) -> None:
    first, second = _gateways(two, 2)
    two.cluster.wait("the budget allows one", lambda: _allowed(two) == 1)
    _evict(two, first)
    with pytest.raises(errors.RigError, match="disruption budget"):
        _evict(two, second)
    two.cluster.wait("the budget allows one again", lambda: _allowed(two) == 1)
    _evict(two, second)
    _gateways(two, 2)


def test_a_scaler_that_cannot_start_leaves_the_one_gateway_to_wake_the_model(
    kept_from_two: Endpoint,
) -> None:
    service = kept_from_two

    def told() -> bool:
        seen = service.condition("AutoscalingReady")
        assert "a Pod that is to answer KEDA does not start" in seen["message"], seen
        assert "minimum memory usage per Container is 100Mi" in seen["message"], seen
        # KEDA goes on with whom it has.
        return bool(seen["status"] == "True")

    service.cluster.wait("the status says why", told, STUCK_SECONDS)
    (before,) = _gateways(service, 1)
    assert service.at(before).queue()["scalerConnected"]
    since = service.cluster.audit.mark()
    assert service.ask("By way of the old one").finished
    service.wait_asleep()
    assert service.replica_numbers(since) == [1, 0]
    (after,) = _gateways(service, 1)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]

    where = f"-n={service.namespace}"
    service.cluster.kubectl("delete", "limitrange", "least", where)
    # What was refused is tried again ever more seldom.
    nudge = ("annotate", "replicaset", "--all", "--overwrite", "rig.noctaya.io/nudged=1")
    service.cluster.kubectl(*nudge, where)
    _gateways(service, 2)
    service.wait_armed()
    assert service.ask("By way of the scaler").finished
    assert "does not start" not in service.condition("AutoscalingReady")["message"]


def _least_memory() -> Object:
    """A limit range that refuses the scaler of several, and nobody else."""
    least = {"type": "Container", "min": {"memory": "100Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "least"},
        "spec": {"limits": [least]},
    }


def _gateways(service: Endpoint, number: int) -> list[Object]:
    """Its gateways, as soon as there are so many, all ready."""

    def found() -> list[Object]:
        pods = service.pods("gateway")
        return pods if len(pods) == number and all(is_ready(pod) for pod in pods) else []

    # One that goes waits for nothing here, but stays for its Service's sake.
    return service.cluster.wait(f"{number} gateways of {service.name}", found, PATIENCE_SECONDS)


def _outcome(request: "concurrent.futures.Future[Answer]") -> Answer | Exception:
    """What a client got, an error of its connection included."""
    try:
        return request.result(PATIENCE_SECONDS)
    except requests.RequestException as e:
        return e


def _annotate(service: Endpoint, number: str) -> None:
    target = (f"llmservice/{service.name}", f"-n={service.namespace}")
    service.cluster.kubectl("annotate", "--overwrite", *target, f"{REPLICAS}={number}")


def _allowed(service: Endpoint) -> int:
    budget = service.cluster.get("pdb", f"{service.name}-gateway", service.namespace)
    assert budget is not None, "there is no PodDisruptionBudget"
    return int(budget.get("status", {}).get("disruptionsAllowed", 0))


def _evict(service: Endpoint, pod: Object) -> None:
    """As ``kubectl drain`` asks for it."""
    metadata = {"name": pod["metadata"]["name"], "namespace": service.namespace}
    path = f"/api/v1/namespaces/{service.namespace}/pods/{metadata['name']}/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    service.cluster.kubectl("create", f"--raw={path}", "-f=-", stdin=json.dumps(eviction))
