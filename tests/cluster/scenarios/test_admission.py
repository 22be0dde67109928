"""What the API server itself refuses, in words that a person can act on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hooks.api import crds
from tests.cluster import cluster as running
from tests.cluster import errors
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object, merged

SERVICE = builders.service("default", "admitted", "echo-quick")
RUNTIME = builders.runtime("admitted")

DIGEST = f"sha256:{'0' * 64}"
ARTIFACT = {"uri": f"oci://registry.example/models/small@{DIGEST}"}
SCHEMES = "must begin with hf://, huggingface://, modelscope://, oci:// or pvc://"
ONE_ACTION = "a probe needs exactly one of httpGet, exec, tcpSocket and grpc"
PROBE = {"httpGet": {"port": 8000}}


def _of_source(uri: str, **more: Any) -> Object:
    return {"spec": {"model": {"source": {"uri": uri}}, **more}}


def _of_env(**variable: Any) -> Object:
    return {"spec": {"container": {"env": [{"name": "A", **variable}]}}}


def _of_toleration(**toleration: Any) -> Object:
    return {"spec": {"accelerator": {"tolerations": [toleration]}}}


# What is laid over a sound object, and what the answer has to say.
SERVICES: list[tuple[Object, str]] = [
    ({"metadata": {"name": "a" * 55}}, "metadata.name must have at most 54 characters"),
    ({"metadata": {"name": "7b"}}, "a letter first and no dash last"),
    ({"metadata": {"name": "qwen.7b"}}, "lower-case letters, digits and dashes only"),
    ({"spec": {"model": {"source": {"secretRef": {"name": "a"}}}}}, "is for oci:// sources only"),
    ({"spec": {"model": {"source": ARTIFACT}}}, "an oci:// source is staged on a cache"),
    (
        _of_source("pvc://weights", cache={"strategy": "SharedPVC", "prewarm": True}),
        "a pvc:// source holds its weights already",
    ),
    (_of_source("hf://noctaya/echo@main"), "a source with a @REVISION needs a staged cache"),
    (_of_source("s3://bucket/model"), f"{SCHEMES}; s3:// is not supported"),
    (_of_source("qwen"), SCHEMES),
    (_of_source("hf://noctaya"), "a hub's repository is written like hf://ORG/NAME"),
    (
        _of_source("oci://registry.example/small:1", cache={"strategy": "SharedPVC"}),
        "an artifact is pinned by its digest",
    ),
    (_of_source("pvc://claim/../other"), "without empty, . or .. parts"),
    ({"spec": {"model": {"source": None}}}, "exactly one of source and catalogRef"),
    ({"spec": {"model": {"catalogRef": "a"}}}, "exactly one of source and catalogRef"),
    ({"spec": {"runtime": {"name": None}}}, "exactly one of name and selector"),
    (
        {"spec": {"runtime": {"selector": {"vendor": ["nvidia"]}}}},
        "exactly one of name and selector",
    ),
    ({"spec": {"scaling": {"min": 2}}}, "spec.scaling.max must be at least spec.scaling.min"),
    (
        {"spec": {"scaling": {"activationTimeout": "0s"}}},
        "must be a duration of more than zero, like 10s",
    ),
    (
        {"spec": {"scaling": {"scaleDownStabilization": "61m"}}},
        "must be whole seconds between 0s and 1h, like 5m",
    ),
    (
        {"spec": {"scaling": {"scaleDownStabilization": "1500ms"}}},
        "must be whole seconds between 0s and 1h, like 5m",
    ),
    (
        {"spec": {"endpoint": {"coldStart": {"heartbeatInterval": "0s"}}}},
        "must be a duration of more than zero, like 10s",
    ),
    ({"spec": {"cache": {"prewarm": True}}}, "spec.cache.prewarm needs a cache"),
    ({"spec": {"scaling": {"min": -1}}}, "spec.scaling.min"),
    ({"spec": {"scaling": {"drainTimeout": "-1s"}}}, "spec.scaling.drainTimeout"),
    ({"spec": {"resources": {"accelerators": 0}}}, "spec.resources.accelerators"),
]

RUNTIMES: list[tuple[Object, str]] = [
    (
        _of_env(value="b", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
        "takes either value or valueFrom, not both",
    ),
    (_of_env(valueFrom={}), "needs exactly one of fieldRef"),
    (_of_toleration(effect="NoSchedule"), "a toleration without a key needs operator: Exists"),
    (
        _of_toleration(key="gpu", operator="Exists", value="yes"),
        "a toleration with operator: Exists takes no value",
    ),
    (
        _of_toleration(key="gpu", effect="NoSchedule", tolerationSeconds=5),
        "tolerationSeconds needs effect: NoExecute",
    ),
    (
        {"spec": {"accelerator": {"scheduler": {"queue": "research"}}}},
        "queue needs scheduler.name: volcano",
    ),
    (
        {"spec": {"health": {"startup": {"successThreshold": 2}}}},
        "successThreshold must be 1 on startup and liveness probes",
    ),
    (
        {"spec": {"health": {"liveness": {**PROBE, "successThreshold": 2}}}},
        "successThreshold must be 1 on startup and liveness probes",
    ),
    (
        {"spec": {"health": {"readiness": {"terminationGracePeriodSeconds": 5}}}},
        "terminationGracePeriodSeconds is not for readiness probes",
    ),
    ({"spec": {"health": {"readiness": {"httpGet": None}}}}, ONE_ACTION),
    ({"spec": {"health": {"startup": {"tcpSocket": {"port": 8000}}}}}, ONE_ACTION),
    ({"spec": {"health": {"liveness": {"periodSeconds": 5}}}}, ONE_ACTION),
    ({"spec": {"container": {"image": ""}}}, "spec.container.image"),
    ({"spec": {"accelerator": {"resourceName": "gpu"}}}, "spec.accelerator.resourceName"),
]


@pytest.mark.parametrize("sound", [SERVICE, RUNTIME], ids=["a service", "a runtime"])
def test_what_the_mistakes_are_laid_over_is_taken(
    installed: running.Cluster, sound: Object
) -> None:
    _create(installed, sound)


@pytest.mark.parametrize(("mistake", "words"), SERVICES, ids=[words for _, words in SERVICES])
def test_a_service_that_cannot_work_is_refused_in_words(
    installed: running.Cluster, mistake: Object, words: str
) -> None:
    assert words in _refusal(installed, merged(SERVICE, mistake))


@pytest.mark.parametrize(("mistake", "words"), RUNTIMES, ids=[words for _, words in RUNTIMES])
def test_a_runtime_that_cannot_work_is_refused_in_words(
    installed: running.Cluster, mistake: Object, words: str
) -> None:
    assert words in _refusal(installed, merged(RUNTIME, mistake))


def test_every_rule_of_the_crds_is_tried() -> None:
    """Each rule by its own words, so that a new one needs a mistake of its own above."""
    for crd, mistakes in ((crds.llmservices(), SERVICES), (crds.inferenceruntimes(), RUNTIMES)):
        for message in _messages(crd):
            assert any(words in message for _, words in mistakes), message


def _messages(schema: Any) -> Iterator[str]:
    """What the rules of a schema say, wherever they stand in it."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "x-kubernetes-validations":
                yield from (rule["message"] for rule in value)
            else:
                yield from _messages(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _messages(value)


def _create(cluster: running.Cluster, made: Object) -> None:
    """As far as the API server goes without storing it."""
    cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(made))


def _refusal(cluster: running.Cluster, made: Object) -> str:
    """The API server's answer to an object that it must refuse."""
    with pytest.raises(errors.RigError) as refused:
        _create(cluster, made)
    return str(refused.value)
