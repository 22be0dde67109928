"""What gateways are given, and what they are never kept from by it."""

from __future__ import annotations

import re

import pytest

from hooks.k8s import quantity
from hooks.llmservice import names
from tests.pure.hooks import scenes
from tests.pure.hooks.world import Obj, World, merged, service, serving

TLS = {
    "externalScaler": {"tls": {"serverSecretName": "scaler", "authenticationRef": {"name": "keda"}}}
}
MIB = 2**20
KEY = {"authentication": {"secretRef": {"name": "clients", "key": "key"}}}


def pod(world: World, component: str = "gateway") -> Obj:
    world.settle()
    found: Obj = world.deployment(component)["spec"]["template"]["spec"]
    return found


def test_a_missing_key_does_not_keep_a_gateway_from_starting() -> None:
    """It answers 503 itself; one that does not start would cut KEDA off."""
    assert pod(World(service(endpoint=KEY)))["volumes"][0]["secret"]["optional"] is True


def test_a_key_is_read_where_it_is_mounted_and_follows_its_secret() -> None:
    container = pod(World(service(endpoint=KEY)))["containers"][0]
    [mount] = container["volumeMounts"]
    assert f"--api-key-file={mount['mountPath']}/key" in container["args"]
    assert mount["readOnly"] is True
    assert "subPath" not in mount


def several(count: str = "2", **spec: object) -> World:
    annotations = {"metadata": {"annotations": {names.GATEWAY_REPLICAS: count}}}
    return World(merged(service(**spec), annotations))


def flags(container: Obj) -> dict[str, str]:
    pairs = (argument.partition("=") for argument in container["args"])
    return {name: value for name, _, value in pairs}


def test_several_gateways_are_kept_apart_and_up() -> None:
    world = several("3")
    world.settle()
    gateway = world.deployment("gateway")["spec"]
    assert gateway["replicas"] == 3
    terms = pod(world)["affinity"]["podAntiAffinity"]
    (term,) = terms["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    (budget,) = world.owned[names.DISRUPTION_BUDGETS].values()
    assert budget["spec"]["selector"] == gateway["selector"]
    assert budget["spec"]["maxUnavailable"] == 1


def test_one_gateway_is_its_own_scaler_and_several_leave_it_to_another() -> None:
    one, two = serving(World()), serving(several())
    assert one.owned["Service.v1"]["ns/m-scaler"]["spec"]["selector"] == names.selector(
        names.ServiceName("m"), "gateway"
    )
    assert two.owned["Service.v1"]["ns/m-scaler"]["spec"]["selector"] == names.selector(
        names.ServiceName("m"), "scaler"
    )
    assert "ns/m-scaler" not in one.owned["Deployment.apps/v1"]
    (gateway,), (scaler,) = pod(two)["containers"], pod(two, "scaler")["containers"]
    assert "--member" in flags(gateway)
    # No endpoint of KEDA's Service, not even while its selector changes.
    assert [port["name"] for port in gateway["ports"]] == ["http"]
    assert "--aggregate" in flags(scaler)
    assert pod(two, "scaler")["serviceAccountName"] == pod(two)["serviceAccountName"]


def test_keda_is_asked_once_the_scaler_of_several_gateways_is_there() -> None:
    world = several()
    world.settle()
    world.component_becomes("gateway", available=True)
    world.settle()
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]
    assert world.condition("AutoscalingReady")["reason"] == "ScalerStarting"
    assert world.ready()[2] == "ScalerStarting"
    world.component_becomes("scaler", available=True)
    world.settle()
    assert world.scaled_object()
    assert world.condition("AutoscalingReady")["reason"] == "AutoscalerMissing"


@pytest.mark.parametrize("value", ["0", "-1", "two", "", "1.0", "01", "10000", "\u0661"])
def test_a_number_of_gateways_that_is_none_changes_nothing(value: str) -> None:
    world = serving(several())
    world.parent["metadata"]["annotations"][names.GATEWAY_REPLICAS] = value
    assert set(world.settle()) == {"status"}
    assert world.ready()[2] == "SpecInvalid"
    assert names.GATEWAY_REPLICAS in world.condition("Ready")["message"]


@pytest.mark.parametrize(("count", "holder"), [("1", "gateway"), ("2", "scaler")])
def test_who_serves_keda_mounts_its_certificate(count: str, holder: str) -> None:
    world = serving(several(count, scaling=TLS))
    (container,) = pod(world, holder)["containers"]
    (mount,) = container["volumeMounts"]
    (volume,) = pod(world, holder)["volumes"]
    assert volume == {"name": mount["name"], "secret": {"secretName": "scaler"}}
    assert flags(container)["--scaler-tls-dir"] == mount["mountPath"]
    assert "subPath" not in mount
    if holder == "scaler":
        assert "volumes" not in pod(world)
        assert "--scaler-tls-dir" not in flags(pod(world)["containers"][0])


def test_keda_is_told_where_its_certificate_is() -> None:
    (trigger,) = serving(World(service(scaling=TLS))).scaled_object()["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"kind": "TriggerAuthentication", "name": "keda"}


def test_a_pod_that_may_wait_for_its_certificate_names_the_secret() -> None:
    world = World(service(scaling=TLS))
    world.settle()
    world.add_pod("m-gateway-0", component="gateway", containerStatuses=[creating("gateway")])
    world.settle()
    assert "no Secret scaler" in world.condition("Ready")["message"]


def test_a_scaler_that_may_wait_for_its_certificate_names_the_secret() -> None:
    world = several(scaling=TLS)
    world.settle()
    world.component_becomes("gateway", available=True)
    world.add_pod("m-scaler-0", component="scaler", containerStatuses=[creating("scaler")])
    world.settle()
    assert "no Secret scaler" in world.condition("AutoscalingReady")["message"]


def test_a_certificate_that_is_missing_shows_where_another_gateway_still_serves() -> None:
    world = serving(World())
    world.edit(scaling=TLS)
    world.settle()
    world.add_pod("m-gateway-1", component="gateway", containerStatuses=[creating("gateway")])
    world.settle()
    assert "Secret" not in world.condition("AutoscalingReady")["message"]
    world.pass_time(120)
    world.settle()
    assert "no Secret scaler" in world.condition("AutoscalingReady")["message"]
    assert world.condition("AutoscalingReady")["status"] == "True"
    assert world.ready() == ("Ready", "True", "Available")


def test_a_scaler_of_several_that_does_not_start_shows_beside_what_keda_says() -> None:
    world = serving(several(scaling=TLS))
    world.component_becomes("scaler", available=False)
    world.add_pod("m-scaler-0", component="scaler", containerStatuses=[creating("scaler")])
    world.keda_says("False", "TriggerError", "connection refused")
    world.pass_time(120)
    world.settle()
    autoscaling = world.condition("AutoscalingReady")
    assert (autoscaling["status"], autoscaling["reason"]) == ("False", "TriggerError")
    assert autoscaling["message"].startswith("connection refused; ")
    assert "no Secret scaler" in autoscaling["message"]


RUNS_UNREADY = {"name": "gateway", "state": {"running": {}}}


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize(
    ("container", "words"),
    [
        (scenes.waiting("ErrImagePull") | {"name": "gateway"}, "image"),
        (RUNS_UNREADY, "kubectl logs -n ns -l app.kubernetes.io/component=gateway"),
    ],
)
def test_a_gateway_that_does_not_start_shows_while_another_serves(
    count: str, container: Obj, words: str
) -> None:
    world = serving(several(count))
    world.add_pod("m-gateway-1", component="gateway", containerStatuses=[container])
    world.settle()
    assert "Pod does not" not in world.condition("Ready")["message"]
    assert world.ask_composite()["resyncAfterSeconds"] > 0
    world.pass_time(120)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
    before, _, after = world.condition("Ready")["message"].partition("; a gateway's Pod does not")
    assert before == "replicas ready: 1, wanted: 1"
    assert words in after
    assert world.ask_composite()["resyncAfterSeconds"] == 0
    world.pods.clear()
    world.settle()
    assert world.condition("Ready")["message"] == before


@pytest.mark.parametrize(("scaling", "named"), [(TLS, True), ({}, False)])
def test_what_keda_says_of_a_silent_scaler_is_explained_where_there_are_certificates(
    scaling: Obj, named: bool
) -> None:
    world = serving(World(service(scaling=scaling)))
    world.keda_says("False", "ScaledObjectCheckFailed", "no metric specs returned from scalers x")
    world.settle()
    autoscaling = world.condition("AutoscalingReady")
    assert (autoscaling["status"], autoscaling["reason"]) == ("False", "ScaledObjectCheckFailed")
    assert ("compare Secret scaler with" in autoscaling["message"]) is named


def creating(name: str) -> Obj:
    return scenes.waiting("ContainerCreating") | {"name": name}


@pytest.mark.parametrize("queue", [1, 100, 20_000])
def test_a_gateways_memory_covers_what_it_may_hold(queue: int) -> None:
    (container,) = pod(World(service(endpoint={"maxQueue": queue})))["containers"]
    limit = quantity.parse(container["resources"]["limits"]["memory"])
    assert limit >= int(flags(container)["--held-bytes"]) + (128 * MIB) + queue * 64 * 1024
    assert container["resources"]["requests"]["memory"] == "128Mi"


def test_a_smaller_limit_holds_less_and_a_request_of_the_users_stays() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"memory": "300Mi"}}
    (container,) = pod(World(service(endpoint={"resources": resources})))["containers"]
    assert int(flags(container)["--held-bytes"]) <= (300 - 128) * MIB
    assert container["resources"] == {
        "limits": {"memory": "300Mi"},
        "requests": {"cpu": "1", "memory": "128Mi"},
    }


@pytest.mark.parametrize(
    ("limit", "queue"), [("128Mi", 1), ("198Mi", 100), ("1Gi", 20_000), ("1", 1)]
)
def test_a_limit_without_a_place_for_a_large_request_is_refused(limit: str, queue: int) -> None:
    world = World()
    world.settle()
    before = world.deployment("gateway")
    resources = {"limits": {"memory": limit}}
    world.edit(endpoint={"maxQueue": queue, "resources": resources})
    world.settle()
    assert world.ready()[2] == "SpecInvalid"
    message = world.condition("Ready")["message"]
    needed = re.search(r"limits.memory is \S+; with maxQueue \d+ a gateway needs (\d+Mi)", message)
    assert needed is not None
    assert world.deployment("gateway") == before
    world.edit(endpoint={"maxQueue": queue, "resources": {"limits": {"memory": needed[1]}}})
    world.settle()
    assert world.ready()[2] == "GatewayStarting"
    assert flags(pod(world)["containers"][0])["--held-bytes"] == str(64 * MIB)


def test_heartbeats_are_data_where_an_annotation_says_so() -> None:
    world = World()
    world.parent["metadata"].setdefault("annotations", {})[names.DATA_HEARTBEATS] = "true"
    assert "--data-heartbeats" in flags(pod(world)["containers"][0])
    world.parent["metadata"]["annotations"][names.DATA_HEARTBEATS] = "yes"
    world.settle()
    assert world.ready()[2] == "SpecInvalid"
