"""Each field that is passed on arrives where it is meant to, with a value that is no default."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from hooks.api.runtime import InferenceRuntimeSpec
from hooks.llmservice import vendors
from tests.pure.hooks.scenes import with_gateways
from tests.pure.hooks.world import Obj, World, example, merged, service, serving

BACKEND = ("Deployment.apps/v1", "m-backend")
BACKEND_SERVICE = ("Service.v1", "m-backend")
GATEWAY = ("Deployment.apps/v1", "m-gateway")
CLAIM = ("PersistentVolumeClaim.v1", "m-cache")
SCALED_OBJECT = ("ScaledObject.keda.sh/v1alpha1", "m")

POD = ("spec", "template", "spec")
ENGINE = (*POD, "containers", 0)
ARGS = (*ENGINE, "args")
PROBE = {"tcpSocket": {"port": "http"}, "periodSeconds": 7}
KEY = {"secretRef": {"name": "clients", "key": "API_KEY"}}
METRICS = {"queueDepth": "waiting"}
NAMES = ("metadata", "annotations", "serving.noctaya.io/metric-names")


@dataclasses.dataclass(frozen=True)
class Case:
    """A field's value, and where it is to be found."""

    value: Obj
    child: tuple[str, str]
    path: tuple[str | int, ...]
    expected: Any


SERVICE: dict[str, Case] = {
    "spec.model.source.uri": Case(
        {"model": {"source": {"uri": "pvc://weights/llama"}}},
        BACKEND,
        (*ENGINE, "volumeMounts", 3, "subPath"),
        "llama",
    ),
    "spec.runtime.argsOverride": Case(
        {"runtime": {"argsOverride": ["--template={{ messages }}"]}},
        BACKEND,
        (*ARGS, -1),
        "--template={{ messages }}",
    ),
    "spec.resources.accelerators": Case(
        {"resources": {"accelerators": 2}},
        BACKEND,
        (*ENGINE, "resources", "limits", "nvidia.com/gpu"),
        "2",
    ),
    "spec.resources.cpu": Case(
        {"resources": {"cpu": "1500m"}}, BACKEND, (*ENGINE, "resources", "requests", "cpu"), "1500m"
    ),
    "spec.resources.memory": Case(
        {"resources": {"memory": "64Gi"}},
        BACKEND,
        (*ENGINE, "resources", "limits", "memory"),
        "64Gi",
    ),
    "spec.scaling.min": Case({"scaling": {"min": 2, "max": 3}}, BACKEND, ("spec", "replicas"), 2),
    "spec.scaling.max": Case(
        {"scaling": {"max": 3}}, SCALED_OBJECT, ("spec", "maxReplicaCount"), 3
    ),
    "spec.scaling.target": Case(
        {"scaling": {"target": 8}},
        SCALED_OBJECT,
        ("spec", "triggers", 0, "metadata", "target"),
        "8",
    ),
    "spec.scaling.activationTimeout": Case(
        {"scaling": {"activationTimeout": "90s"}}, GATEWAY, ARGS, "--activation-timeout-seconds=90"
    ),
    "spec.scaling.scaleDownStabilization": Case(
        {"scaling": {"scaleDownStabilization": "2m"}},
        SCALED_OBJECT,
        ("spec", "cooldownPeriod"),
        120,
    ),
    "spec.scaling.drainTimeout": Case(
        {"scaling": {"drainTimeout": "1m"}}, BACKEND, (*POD, "terminationGracePeriodSeconds"), 70
    ),
    "spec.cache.strategy": Case(
        {"cache": {"strategy": "SharedPVC"}}, CLAIM, ("spec", "accessModes"), "ReadWriteMany"
    ),
    "spec.cache.size": Case(
        {"cache": {"strategy": "NodeLocalPVC", "size": "7Gi"}},
        CLAIM,
        ("spec", "resources", "requests", "storage"),
        "7Gi",
    ),
    "spec.cache.storageClassName": Case(
        {"cache": {"strategy": "NodeLocalPVC", "storageClassName": "fast"}},
        CLAIM,
        ("spec", "storageClassName"),
        "fast",
    ),
    "spec.endpoint.maxQueue": Case({"endpoint": {"maxQueue": 7}}, GATEWAY, ARGS, "--max-queue=7"),
    "spec.endpoint.coldStart.mode": Case(
        {"endpoint": {"coldStart": {"mode": "reject"}}}, GATEWAY, ARGS, "--cold-start=reject"
    ),
    "spec.endpoint.coldStart.heartbeatInterval": Case(
        {"endpoint": {"coldStart": {"heartbeatInterval": "2.5s"}}},
        GATEWAY,
        ARGS,
        "--heartbeat-interval-seconds=2.5",
    ),
    "spec.endpoint.authentication.secretRef.name": Case(
        {"endpoint": {"authentication": KEY}},
        GATEWAY,
        (*POD, "volumes", 0, "secret", "secretName"),
        "clients",
    ),
    "spec.endpoint.authentication.secretRef.key": Case(
        {"endpoint": {"authentication": KEY}},
        GATEWAY,
        (*POD, "volumes", 0, "secret", "items", 0),
        {"key": "API_KEY", "path": "key"},
    ),
    "spec.imagePullSecrets": Case(
        {"imagePullSecrets": [{"name": "registry"}]},
        BACKEND,
        (*POD, "imagePullSecrets", 0, "name"),
        "registry",
    ),
} | {
    f"spec.endpoint.resources.{kind}.{name}": Case(
        {"endpoint": {"resources": {kind: {name: amount}}}},
        GATEWAY,
        (*ENGINE, "resources", kind, name),
        amount,
    )
    for kind in ("requests", "limits")
    for name, amount in (("cpu", "250m"), ("memory", "512Mi"))
}

RUNTIME: dict[str, Case] = {
    "spec.container.image": Case(
        {"container": {"image": "engine:9"}}, BACKEND, (*ENGINE, "image"), "engine:9"
    ),
    "spec.container.args": Case(
        {"container": {"args": ["{{.Service.Namespace}}/{{ .Service.Name }}"]}},
        BACKEND,
        ARGS,
        "ns/m",
    ),
    "spec.container.env": Case(
        {"container": {"env": [{"name": "MODEL", "value": "{{ .Model.Path }}"}]}},
        BACKEND,
        (*ENGINE, "env", -1),
        {"name": "MODEL", "value": "noctaya/echo"},
    ),
    "spec.container.port.name": Case(
        {"container": {"port": {"name": "api"}}, "metrics": None},
        BACKEND_SERVICE,
        ("spec", "ports", 0, "name"),
        "api",
    ),
    "spec.container.port.containerPort": Case(
        {"container": {"port": {"containerPort": 8001}}},
        BACKEND,
        (*ENGINE, "ports", 0, "containerPort"),
        8001,
    ),
    "spec.accelerator.resourceName": Case(
        {"accelerator": {"resourceName": "example.com/npu"}},
        BACKEND,
        (*ENGINE, "resources", "requests", "example.com/npu"),
        "1",
    ),
    "spec.accelerator.nodeSelector": Case(
        {"accelerator": {"nodeSelector": {"gpu": "h100"}}},
        BACKEND,
        (*POD, "nodeSelector"),
        {"gpu": "h100"},
    ),
    "spec.accelerator.tolerations": Case(
        {"accelerator": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
        BACKEND,
        (*POD, "tolerations", 0, "key"),
        "gpu",
    ),
    "spec.accelerator.scheduler.name": Case(
        {"accelerator": {"scheduler": {"name": "volcano"}}},
        BACKEND,
        (*POD, "schedulerName"),
        "volcano",
    ),
    "spec.accelerator.scheduler.queue": Case(
        {"accelerator": {"scheduler": {"name": "volcano", "queue": "models"}}},
        BACKEND,
        ("spec", "template", "metadata", "annotations", "scheduling.volcano.sh/queue-name"),
        "models",
    ),
    "spec.health.readiness": Case(
        {"health": {"readiness": PROBE}}, BACKEND, (*ENGINE, "readinessProbe"), PROBE
    ),
    "spec.health.startup": Case(
        {"health": {"startup": PROBE}}, BACKEND, (*ENGINE, "startupProbe"), PROBE
    ),
    "spec.health.liveness": Case(
        {"health": {"liveness": PROBE}}, BACKEND, (*ENGINE, "livenessProbe"), PROBE
    ),
    "spec.lifecycle.terminationGracePeriodSeconds": Case(
        {"lifecycle": {"terminationGracePeriodSeconds": 500}},
        BACKEND,
        (*POD, "terminationGracePeriodSeconds"),
        500,
    ),
    "spec.lifecycle.preStopDrain": Case(
        {"lifecycle": {"preStopDrain": True}, "metrics": None},
        BACKEND,
        (*ENGINE, "lifecycle", "preStop", "sleep", "seconds"),
        30,
    ),
    "spec.metrics.path": Case(
        {"metrics": METRICS | {"path": "/stats"}},
        BACKEND_SERVICE,
        ("metadata", "annotations", "prometheus.io/path"),
        "/stats",
    ),
    "spec.metrics.port": Case(
        {"metrics": METRICS | {"port": 9400}},
        BACKEND_SERVICE,
        ("metadata", "annotations", "prometheus.io/port"),
        "9400",
    ),
    "spec.metrics.queueDepth": Case(
        {"metrics": METRICS | {"running": None}},
        BACKEND_SERVICE,
        NAMES,
        '{"queueDepth":"waiting"}',
    ),
} | {
    f"spec.metrics.{name}": Case(
        {"metrics": METRICS | {"running": None} | {name: "x"}},
        BACKEND_SERVICE,
        NAMES,
        f'{{"{name}":"x","queueDepth":"waiting"}}'
        if name == "kvCacheUtil"
        else f'{{"queueDepth":"waiting","{name}":"x"}}',
    )
    for name in ("kvCacheUtil", "running", "ttft")
}


def found(case: Case, world: World) -> Any:
    serving(world, replicas=max(1, world.parent["spec"]["scaling"].get("min", 0)))
    kind, name = case.child
    value: Any = (world.owned | world.attached)[kind][f"ns/{name}"]
    for step in case.path:
        value = value[step]
    return value


def check(case: Case, world: World) -> None:
    value = found(case, world)
    if isinstance(value, list):
        assert case.expected in value
    else:
        assert value == case.expected


def runtime() -> Obj:
    """The example's, with a device."""
    made = example("runtime")
    made["metadata"]["annotations"] = {}
    return made


@pytest.mark.parametrize("field", SERVICE)
def test_a_field_of_a_service_arrives(field: str) -> None:
    parent = service()
    parent["spec"] = merged(parent["spec"], SERVICE[field].value)
    check(SERVICE[field], World(parent, runtime()))


@pytest.mark.parametrize("field", RUNTIME)
def test_a_field_of_a_runtime_arrives(field: str) -> None:
    made = runtime()
    made["spec"] = merged(made["spec"], RUNTIME[field].value)
    check(RUNTIME[field], World(runtime=made))


@pytest.mark.parametrize("case", [*SERVICE.values(), *RUNTIME.values()])
def test_no_field_arrives_where_it_is_not_set(case: Case) -> None:
    """So that no case above is true of every service."""
    try:
        check(case, World(runtime=runtime()))
    except (AssertionError, KeyError, IndexError):
        return
    pytest.fail(f"{case.expected!r} is there without being asked for")


def test_memory_and_devices_are_asked_for_as_they_are_limited_and_cpu_is_not_limited() -> None:
    parent = service(resources={"accelerators": 2, "cpu": "4", "memory": "64Gi"})
    world = serving(World(parent, runtime()))
    container = world.deployment("backend")["spec"]["template"]["spec"]["containers"][0]
    both = {"memory": "64Gi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"limits": both, "requests": both | {"cpu": "4"}}


@pytest.mark.parametrize("vendor", ["nvidia", "ascend"])
def test_whole_devices_are_what_the_vendors_device_plugin_calls_them(vendor: str) -> None:
    made = runtime()
    made["spec"] |= {"vendor": vendor}
    made["spec"]["accelerator"]["resourceName"] = "huawei.com/Ascend910"
    world = serving(World(service(resources={"accelerators": 8}), made))
    container = world.deployment("backend")["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"huawei.com/Ascend910": "8"}


def test_each_vendor_of_the_schema_has_a_module() -> None:
    schema = InferenceRuntimeSpec.model_fields["vendor"].annotation
    assert set(vendors.KNOWN) == set(typing.get_args(schema))


def test_pull_secrets_are_on_every_pod() -> None:
    """Backend, gateways and their scaler, and the Job that stages."""
    world = World(
        service(
            imagePullSecrets=[{"name": "a"}, {"name": "b"}],
            model={"source": {"uri": "hf://org/name"}},
            cache={"strategy": "NodeLocalPVC", "prewarm": True},
        )
    )
    with_gateways(world, 2)
    children = [child for members in world.owned.values() for child in members.values()]
    templates = [
        child["spec"]["template"] for child in children if "template" in child.get("spec", {})
    ]
    assert len(templates) == 4
    for template in templates:
        assert template["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


def test_whether_the_endpoint_is_called_openai_compatible_changes_nothing() -> None:
    worlds = [World(), World(service(endpoint={"openAICompatible": False}))]
    for world in worlds:
        world.settle()
    assert worlds[0].owned == worlds[1].owned


def test_a_service_says_where_it_is_reached_and_what_it_runs_on() -> None:
    world = serving(World(), replicas=1)
    status = world.parent["status"]
    assert status["endpointURL"] == "http://m.ns.svc/v1"
    assert status["resolvedRuntime"] == "echo"
    assert status["replicas"] == 1
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {1}
