"""What the models accept, what they make of it, and how they say what is wrong."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from hooks.api import crds, fields, parse, pods
from hooks.api.llmservice import LLMServiceSpec
from hooks.api.runtime import InferenceRuntimeSpec
from hooks.k8s import duration, quantity
from tests.pure.hooks.scenes import VLLM, full
from tests.pure.hooks.world import example, merged

SERVICE: dict[str, Any] = {
    "model": {"source": {"uri": "hf://org/name"}},
    "runtime": {"name": "echo"},
}
RUNTIME: dict[str, Any] = {
    "vendor": "nvidia",
    "container": {"image": "engine:1", "port": {}},
    "accelerator": {"resourceName": "nvidia.com/gpu"},
}


def service(**spec: Any) -> LLMServiceSpec:
    return parse.read(LLMServiceSpec, SERVICE | spec, path="spec")


def runtime(**spec: Any) -> InferenceRuntimeSpec:
    return parse.read(InferenceRuntimeSpec, RUNTIME | spec, path="spec")


MEMORY = {"resource": "limits.memory"}


def of_container(**change: Any) -> dict[str, Any]:
    return {"container": RUNTIME["container"] | change}


def of_variable(**source: Any) -> dict[str, Any]:
    return of_container(env=[{"name": "A", "valueFrom": source}])


def of_toleration(**toleration: Any) -> dict[str, Any]:
    return {"accelerator": {"resourceName": "a/b", "tolerations": [toleration]}}


def problems(model: Any, spec: Any) -> tuple[str, ...]:
    with pytest.raises(parse.Invalid) as caught:
        parse.read(model, spec, path="spec")
    return caught.value.problems


def test_a_service_has_the_defaults_of_the_reference() -> None:
    spec = service()
    assert spec.resources.accelerators == 1
    assert (spec.scaling.min, spec.scaling.max, spec.scaling.target) == (0, 1, 10)
    assert spec.scaling.activation_timeout == spec.scaling.scale_down_stabilization == Decimal(300)
    assert spec.scaling.drain_timeout == Decimal(120)
    assert (spec.cache.strategy, spec.cache.size, spec.cache.prewarm) == (
        "NodeLocalPVC",
        "50Gi",
        False,
    )
    assert (spec.endpoint.max_queue, spec.endpoint.open_ai_compatible) == (100, True)
    assert spec.endpoint.cold_start.mode == "keepalive"
    assert spec.endpoint.cold_start.heartbeat_interval == Decimal(10)


def test_a_runtime_has_the_defaults_of_the_reference() -> None:
    spec = runtime(metrics={"queueDepth": "waiting"})
    assert (spec.family, spec.priority) == ("vllm", 0)
    assert (spec.container.port.name, spec.container.port.container_port) == ("http", 8000)
    assert not spec.lifecycle.pre_stop_drain
    assert spec.metrics is not None
    assert (spec.metrics.path, spec.metrics.port) == ("/metrics", "http")


def test_the_shipped_example_is_valid() -> None:
    parse.read(LLMServiceSpec, example("llmservice")["spec"], path="spec")
    parse.read(InferenceRuntimeSpec, example("runtime")["spec"], path="spec")


def test_quantities_are_held_in_canonical_form() -> None:
    assert service(resources={"cpu": "1000m", "memory": "0.5Gi"}).resources.memory == "512Mi"
    assert service(resources={"cpu": 2}).resources.cpu == "2"


def test_nulls_count_as_absent() -> None:
    assert service(scaling=None, cache={"size": None}) == service()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scalin": {}}, "spec.scalin: unknown field; did you mean scaling?"),
        (
            {"scaling": {"scaledownStabilization": "5m"}},
            "spec.scaling.scaledownStabilization: unknown field; did you mean"
            " scaleDownStabilization?",
        ),
        ({"endpoint": {"openAiCompatible": True}}, "did you mean openAICompatible?"),
        ({"zzz": 1}, "spec.zzz: unknown field"),
        ({"model": None}, "spec.model: is required"),
        ({"model": {}}, "spec.model: needs exactly one of source and catalogRef"),
        (
            {"runtime": {"name": "a", "selector": {"vendor": ["nvidia"]}}},
            "spec.runtime: needs exactly one of name and selector",
        ),
        ({"runtime": {"name": " "}}, "spec.runtime.name: must not be empty"),
        (
            {"runtime": {"selector": {"vendor": ["amd"]}}},
            """spec.runtime.selector.vendor[0]: must be 'nvidia' or 'ascend', found "amd\"""",
        ),
        (
            {"runtime": {"name": "a", "argsOverride": "--x"}},
            'spec.runtime.argsOverride: must be a list, found "--x"',
        ),
        ({"resources": {"accelerators": 0}}, "must be at least 1, found 0"),
        ({"resources": {"accelerators": "2"}}, 'must be a whole number, found "2"'),
        ({"resources": {"accelerators": True}}, "must be a whole number, found true"),
        ({"resources": {"memory": "lots"}}, "'lots' is not a resource quantity; write it like"),
        ({"resources": {"memory": "0"}}, "'0' must be more than zero"),
        ({"resources": {"cpu": 0.5}}, "0.5 is not a resource quantity; write it in quotes"),
        ({"scaling": {"min": 3}}, "max must be at least min, found max 1 and min 3"),
        ({"scaling": {"max": 2**31}}, "must be at most 2147483647"),
        ({"scaling": {"activationTimeout": "0s"}}, "must be a duration of more than zero"),
        ({"scaling": {"activationTimeout": "5 minutes"}}, "'5 minutes' is not a duration"),
        ({"scaling": {"activationTimeout": 300}}, "300 is not a duration"),
        ({"scaling": {"scaleDownStabilization": "2h"}}, "must be whole seconds between 0s and 1h"),
        (
            {"scaling": {"scaleDownStabilization": "500ms"}},
            "must be whole seconds between 0s and 1h",
        ),
        ({"cache": []}, "spec.cache: must be an object, found a list"),
        ({"cache": {"prewarm": "yes"}}, 'spec.cache.prewarm: must be true or false, found "yes"'),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "name 'a' is given twice"),
        (
            {"endpoint": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}},
            "spec.endpoint.resources: requests.cpu 2 is more than limits.cpu 1500m",
        ),
        *(
            ({"cache": {"storageClassName": name}}, "spec.cache.storageClassName: must be")
            for name in ("Fast disks", "a..b", ".a", "a.", "a.-b", "-a", "a-", "a_b")
        ),
        ({"imagePullSecrets": [{}]}, "spec.imagePullSecrets[0].name: is required"),
        (
            {"imagePullSecrets": [{"nam": "a"}]},
            "spec.imagePullSecrets[0].nam: unknown field; did you mean name?",
        ),
    ],
)
def test_a_mistake_in_a_service_is_named_with_its_path(
    change: dict[str, Any], sentence: str
) -> None:
    assert sentence in "; ".join(problems(LLMServiceSpec, SERVICE | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vendor": "intel"}, "spec.vendor: must be 'nvidia' or 'ascend'"),
        ({"container": {"image": "x"}}, "spec.container.port: is required"),
        (
            {"accelerator": {"resourceName": "a", "scheduler": {"queue": "q"}}},
            "queue needs scheduler.name: volcano",
        ),
        (
            {"health": {"readiness": {"httpGet": {"port": 1}, "exec": {"command": ["x"]}}}},
            "a probe needs exactly one of httpGet, exec, tcpSocket and grpc",
        ),
        ({"metrics": {"queueDepth": "a b"}}, "spec.metrics.queueDepth"),
        # What an API server would refuse in a Pod, where no user would see why.
        ({"accelerator": {"resourceName": "gpu"}}, "spec.accelerator.resourceName"),
        (
            {"accelerator": {"resourceName": "a/b", "nodeSelector": {"a b": "x"}}},
            "spec.accelerator.nodeSelector: 'a b' is no name of a label",
        ),
        (
            {"accelerator": {"resourceName": "a/b", "nodeSelector": {"a": "x y"}}},
            "spec.accelerator.nodeSelector.a",
        ),
        (
            {"accelerator": {"resourceName": "a/b", "tolerations": [{}]}},
            "tolerations[0]: a toleration without a key needs operator: Exists",
        ),
        (
            {
                "accelerator": {
                    "resourceName": "a/b",
                    "tolerations": [{"key": "a", "operator": "Exists", "value": "b"}],
                }
            },
            "tolerations[0]: a toleration with operator: Exists takes no value",
        ),
        (
            {
                "accelerator": {
                    "resourceName": "a/b",
                    "tolerations": [{"key": "a", "tolerationSeconds": 5}],
                }
            },
            "tolerations[0]: tolerationSeconds needs effect: NoExecute",
        ),
        (
            {"health": {"liveness": {"tcpSocket": {"port": 1}, "successThreshold": 2}}},
            "spec.health: successThreshold must be 1 on startup and liveness probes",
        ),
        (
            {
                "health": {
                    "readiness": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}
                }
            },
            "spec.health: terminationGracePeriodSeconds is not for readiness probes",
        ),
        *(
            (of_container(port={"name": name}), "spec.container.port.name: must be lower-case")
            for name in ("8000", "a--b", "a-", "-a", "A", "1-2")
        ),
        *((of_container(image=image), "spec.container.image: must be") for image in (" a", "a\n")),
        *(
            (of_variable(fieldRef={"fieldPath": path}), "fieldRef.fieldPath: must be a field of")
            for path in (
                "metadata.nme",
                "metadata.labels",
                "spec.containers",
                "status.phase",
                "spec.nodeName['a']",
            )
        ),
        (
            of_variable(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"}),
            "fieldRef.apiVersion: must be 'v1'",
        ),
        *(
            (of_variable(resourceFieldRef={"resource": name}), "resource: must be a resource of")
            for name in ("cpu", "limits.nvidia.com/gpu", "limits.gpu", "spec.cpu")
        ),
        (
            of_variable(resourceFieldRef={"resource": "limits.cpu", "divisor": "1Mi"}),
            "divisor of limits.cpu must be one of 1, 1m, found 1Mi",
        ),
        (
            of_variable(resourceFieldRef={"resource": "limits.memory", "divisor": "2Mi"}),
            "divisor of limits.memory must be one of 1, 1k, 1M, ",
        ),
        (of_toleration(key="a b", operator="Exists"), "tolerations[0].key: must be a taint's key"),
        (of_toleration(key="a", value="b c"), "tolerations[0].value: must be at most 63 letters"),
        ({"health": {"startup": {"exec": {}}}}, "spec.health.startup.exec.command: is required"),
        ({"metrics": {"queueDepth": "a", "path": "/x'; rm"}}, "spec.metrics.path"),
    ],
)
def test_a_mistake_in_a_runtime_is_named_with_its_path(
    change: dict[str, Any], sentence: str
) -> None:
    assert sentence in "; ".join(problems(InferenceRuntimeSpec, RUNTIME | change))


TLS: dict[str, Any] = {"serverSecretName": "s", "authenticationRef": {"name": "k"}}


def of_tls(**change: Any) -> dict[str, Any]:
    return {"scaling": {"externalScaler": {"tls": TLS | change}}}


def of_key(**change: Any) -> dict[str, Any]:
    secret = {"name": "s", "key": "k"} | change
    return {"endpoint": {"authentication": {"secretRef": secret}}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": {"source": {}}}, "spec.model.source.uri: is required"),
        ({"scaling": {"min": -1}}, "spec.scaling.min: must be at least 0"),
        ({"scaling": {"max": 0}}, "spec.scaling.max: must be at least 1"),
        ({"scaling": {"target": 0}}, "spec.scaling.target: must be at least 1"),
        ({"scaling": {"metric": "cpu"}}, "spec.scaling.metric: must be 'queueDepth' or"),
        ({"scaling": {"drainTimeout": "-1s"}}, "spec.scaling.drainTimeout: '-1s' is not a"),
        ({"cache": {"strategy": "Ram"}}, "spec.cache.strategy: must be 'NodeLocalPVC', "),
        ({"endpoint": {"maxQueue": 0}}, "spec.endpoint.maxQueue: must be at least 1"),
        ({"endpoint": {"coldStart": {"mode": "hold"}}}, "coldStart.mode: must be 'keepalive' or"),
        (
            {"endpoint": {"coldStart": {"heartbeatInterval": "0s"}}},
            "heartbeatInterval: must be a duration of more than zero",
        ),
        (of_key(name=None), "spec.endpoint.authentication.secretRef.name: is required"),
        (of_key(key=None), "spec.endpoint.authentication.secretRef.key: is required"),
        (of_tls(serverSecretName=None), "externalScaler.tls.serverSecretName: is required"),
        (of_tls(authenticationRef=None), "externalScaler.tls.authenticationRef: is required"),
        (of_tls(authenticationRef={}), "tls.authenticationRef.name: is required"),
        (
            of_tls(authenticationRef={"name": "k", "kind": "Secret"}),
            "authenticationRef.kind: must be 'TriggerAuthentication' or",
        ),
    ],
)
def test_a_service_has_the_bounds_of_the_reference(change: dict[str, Any], sentence: str) -> None:
    (found,) = problems(LLMServiceSpec, SERVICE | change)
    assert sentence in found


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"family": "sglang"}, "spec.family: must be 'vllm', found"),
        ({"vendor": None}, "spec.vendor: is required"),
        ({"container": None}, "spec.container: is required"),
        ({"container": {"port": {}}}, "spec.container.image: is required"),
        ({"accelerator": {}}, "spec.accelerator.resourceName: is required"),
        (
            {"container": {"image": "x", "port": {"containerPort": 0}}},
            "spec.container.port.containerPort: must be at least 1",
        ),
        (
            {"container": {"image": "x", "port": {"containerPort": 65536}}},
            "spec.container.port.containerPort: must be at most 65535",
        ),
        (
            {"lifecycle": {"terminationGracePeriodSeconds": 0}},
            "spec.lifecycle.terminationGracePeriodSeconds: must be at least 1",
        ),
        ({"metrics": {}}, "spec.metrics.queueDepth: is required"),
    ],
)
def test_a_runtime_has_the_bounds_of_the_reference(change: dict[str, Any], sentence: str) -> None:
    (found,) = problems(InferenceRuntimeSpec, RUNTIME | change)
    assert sentence in found


@pytest.mark.parametrize("spec", [None, [], "x", 5, True])
def test_a_spec_of_another_type_is_one_sentence(spec: Any) -> None:
    (sentence,) = problems(LLMServiceSpec, spec)
    assert sentence.startswith("spec: must be an object")


def test_whoever_made_many_mistakes_is_told_of_each() -> None:
    spec = SERVICE | {f"unknown{i}": 1 for i in range(20)}
    assert problems(LLMServiceSpec, spec) == tuple(
        f"spec.unknown{i}: unknown field" for i in range(20)
    )


def test_more_mistakes_than_a_status_can_show_are_counted() -> None:
    spec = SERVICE | {f"unknown{i}": 1 for i in range(100_000)}
    found = problems(LLMServiceSpec, spec)
    assert found[-1] == f"and {100_000 - (len(found) - 1)} more, told once these are mended"
    assert 50 < len(found) < 200
    assert len("; ".join(found)) < 4000


@pytest.mark.parametrize(
    "change",
    [
        {"cache": {"strategy": "x" * 1_000_000}},
        {"x" * 1_000_000: 1},
        {"scaling": {"drainTimeout": "x" * 1_000_000}},
        {"resources": {"memory": "x" * 1_000_000}},
        {"resources": {"memory": ["x" * 1_000_000]}},
        {"runtime": {"name": "x" * 1_000_000}},
        {"runtime": {"selector": {"vendor": ["x" * 1_000_000]}}},
    ],
)
def test_what_is_long_is_not_repeated_whole(change: dict[str, Any]) -> None:
    assert all(len(sentence) < 400 for sentence in problems(LLMServiceSpec, SERVICE | change))


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [
        (
            LLMServiceSpec,
            {"runtime": {"name": "A b"}},
            "spec.runtime.name: must be lower-case letters, digits, and dashes and dots between"
            ' them, found "A b"',
        ),
        (
            LLMServiceSpec,
            {"runtime": {"name": "a", "argsOverride": ["x" * 8193]}},
            "spec.runtime.argsOverride[0]: must have at most 8192 characters, found 8193",
        ),
        (
            LLMServiceSpec,
            {"imagePullSecrets": [{"name": "a"}] * 100_000},
            "spec.imagePullSecrets: must have at most 16 items, found 100000",
        ),
        (
            LLMServiceSpec,
            {"runtime": {"selector": {"vendor": []}}},
            "spec.runtime.selector.vendor: must have at least 1, found 0",
        ),
        (
            LLMServiceSpec,
            {"cache": {"strategy": "None", "prewarm": True}},
            "spec.cache.prewarm needs a cache that outlives the Pod; set spec.cache.strategy to"
            " something other than None",
        ),
        (
            LLMServiceSpec,
            {"model": {"source": {"uri": "hf://a/b", "secretRef": {"name": "s"}}}},
            "spec.model.source.secretRef is for oci:// sources only; remove it",
        ),
        (
            LLMServiceSpec,
            {"model": {"source": {"uri": "hf://a/b@c"}}},
            "a source with a @REVISION needs a staged cache; set spec.cache.prewarm or leave"
            " the revision out",
        ),
        (
            InferenceRuntimeSpec,
            {"accelerator": {"resourceName": "a/b", "scheduler": {"queue": "q"}}},
            "spec.accelerator.scheduler.queue needs scheduler.name: volcano",
        ),
        (
            InferenceRuntimeSpec,
            {"container": {"image": "x", "port": {}, "env": [{"name": "A", "valueFrom": {}}]}},
            "spec.container.env[0].valueFrom: needs exactly one of fieldRef, resourceFieldRef,"
            " configMapKeyRef and secretKeyRef",
        ),
    ],
)
def test_a_mistake_is_said_in_our_own_words_and_once(
    model: Any, change: dict[str, Any], sentence: str
) -> None:
    whole = SERVICE if model is LLMServiceSpec else RUNTIME
    assert problems(model, whole | change) == (sentence,)


FULL: list[tuple[Any, dict[str, Any]]] = [
    (
        LLMServiceSpec,
        merged(
            full().parent["spec"],
            {
                "model": {"source": {"secretRef": {"name": "s"}}},
                "resources": {"fraction": {}},
                "endpoint": {"authentication": {"secretRef": {"name": "s", "key": "k"}}},
                "scaling": {
                    "externalScaler": {
                        "tls": {"serverSecretName": "s", "authenticationRef": {"name": "s"}}
                    }
                },
            },
        ),
    ),
    (InferenceRuntimeSpec, merged(VLLM["spec"], {"metrics": {"queueDepth": "q", "port": 1}})),
]
ODD: list[Any] = [
    "", " ", "x y", "\n", "é", "x" * 9000, -1, 0, 2**31, 2**70, 1.0, 1.5, True,
    [], [None], [[]], [{}], ["x"] * 1000, {}, {"x": 1},
]  # fmt: skip


def inner(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, item in steps:
        yield (*path, step)
        if isinstance(item, dict | list):
            yield from inner(item, (*path, step))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


def test_no_mistake_is_told_in_the_words_of_a_library_or_by_a_pattern() -> None:
    """An odd value in the place of each that may be set."""
    told = set()
    for model, spec in FULL:
        for path, odd in itertools.product(inner(spec), ODD):
            try:
                parse.read(model, replaced(spec, path, odd), path="spec")
            except parse.Invalid as invalid:
                told |= set(invalid.problems)
    assert len(told) > 500
    for sentence in told:
        assert "should" not in sentence.casefold(), sentence
        assert "[a-z" not in sentence, sentence
        path, _, words = sentence.partition(": ")
        assert f"{path}." not in words, sentence


def test_every_pattern_of_the_schemas_has_words() -> None:
    found = re.findall(
        r'"pattern": "((?:[^"\\]|\\.)*)"',
        json.dumps([crds.llmservices(), crds.inferenceruntimes()]),
    )
    patterns = {json.loads(f'"{pattern}"') for pattern in found}
    assert patterns - {quantity.SYNTAX, duration.SYNTAX} == set(fields.IN_WORDS)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({"name": "A", "value": ""}, {"name": "A"}),
        ({"name": "A", "value": "x"}, {"name": "A", "value": "x"}),
        (
            {"name": "A", "valueFrom": {"resourceFieldRef": {**MEMORY, "divisor": "1000m"}}},
            {"name": "A", "valueFrom": {"resourceFieldRef": {**MEMORY, "divisor": "1"}}},
        ),
        (
            {"name": "A", "valueFrom": {"resourceFieldRef": {**MEMORY, "divisor": "0"}}},
            {"name": "A", "valueFrom": {"resourceFieldRef": MEMORY}},
        ),
        (
            {
                "name": "A",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}},
            },
            {
                "name": "A",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}},
            },
        ),
    ],
)
def test_a_variable_is_written_as_an_api_server_stores_it(written: Any, stored: Any) -> None:
    assert pods.dump(pods.EnvVar.model_validate(written)) == stored


def test_a_probe_is_written_without_zeros() -> None:
    probe = pods.Probe.model_validate(
        {
            "httpGet": {"path": "/x", "port": "http", "httpHeaders": []},
            "initialDelaySeconds": 0,
            "periodSeconds": 3,
        }
    )
    assert pods.dump(probe) == {"httpGet": {"path": "/x", "port": "http"}, "periodSeconds": 3}


@pytest.mark.parametrize(
    "change",
    [
        *(
            of_container(port={"name": name})
            for name in ("http", "a", "8000-a", "1a", "a1-2b", "x-1-2", "abcdefghijklmno")
        ),
        of_container(image="registry.example:5000/a/b:c@sha256:" + "0" * 64),
        *(
            of_variable(fieldRef={"fieldPath": path})
            for path in (
                *("metadata.name", "metadata.namespace", "metadata.uid"),
                *("spec.nodeName", "spec.serviceAccountName"),
                *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
                "metadata.labels['app.kubernetes.io/name']",
                "metadata.annotations['a']",
            )
        ),
        *(
            of_variable(resourceFieldRef={"resource": name, "divisor": divisor})
            for name, divisor in (
                ("limits.cpu", "1000m"),
                ("requests.cpu", "1m"),
                ("limits.memory", "1Mi"),
                ("requests.memory", 1),
                ("requests.memory", 0),
                ("limits.ephemeral-storage", "1k"),
                ("limits.hugepages-2Mi", "1Gi"),
            )
        ),
        of_toleration(operator="Exists"),
        of_toleration(key="", operator="Exists"),
        of_toleration(key="nvidia.com/gpu", value="", effect="NoSchedule"),
        of_toleration(key="dedicated", operator="Equal", value="gpu.A100_80", effect="NoExecute"),
    ],
    ids=str,
)
def test_what_an_api_server_takes_in_a_pod_is_taken(change: dict[str, Any]) -> None:
    runtime(**change)


def test_a_toleration_of_zero_seconds_is_kept() -> None:
    toleration = pods.Toleration.model_validate(
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    )
    assert pods.dump(toleration) == {
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
