"""The Decorator `inferenceruntime-status`: mistakes show on a runtime before a service fails."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from hooks import questions, wire
from hooks.k8s import objects
from hooks.llmservice import names
from tests.pure.hooks.scenes import VLLM, runtime_request
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, example, merged, service


def ask(body: Obj, *, after_seconds: float = 0) -> Obj:
    now = NOON + datetime.timedelta(seconds=after_seconds)
    answer = questions.answer(questions.RUNTIME_SYNC, body, settings=SETTINGS, now=now)
    return wire.dump(answer)


def accepted(body: Obj) -> Obj:
    return objects.condition(ask(body), "Accepted")


def test_a_good_runtime_is_accepted() -> None:
    found = accepted(runtime_request({}))
    assert (found["status"], found["reason"]) == ("True", "Accepted")
    assert found["observedGeneration"] == 1
    answer = ask(runtime_request({}))
    assert answer["status"]["observedGeneration"] == 1
    assert answer["attachments"] == []


def test_the_shipped_runtimes_are_accepted() -> None:
    for runtime in (example("runtime"), VLLM):
        body = {"object": runtime, "attachments": {}, "related": {}}
        assert accepted(body)["status"] == "True"


BROKEN: dict[str, tuple[Obj, str, str]] = {
    "braces": (
        {"container": {"args": ["--model", "{{ .Model.Name }}"]}},
        "RuntimeInvalid",
        "spec.container.args[1]: '{{ .Model.Name }}'",
    ),
    "braces in the environment": (
        {"container": {"env": [{"name": "A", "value": "{{x"}]}},
        "RuntimeInvalid",
        "spec.container.env[0].value: '{{x'",
    ),
    "sharing": (
        {"accelerator": {"sharing": {"supported": True}}},
        "NotImplemented",
        "spec.accelerator.sharing.supported",
    ),
    "queue without volcano": (
        {"accelerator": {"scheduler": {"name": None, "queue": "q"}}},
        "RuntimeInvalid",
        "queue needs scheduler.name: volcano",
    ),
    "no image": ({"container": {"image": ""}}, "RuntimeInvalid", "spec.container.image"),
    "two actions": (
        {"health": {"readiness": {"exec": {"command": ["x"]}}}},
        "RuntimeInvalid",
        "exactly one of httpGet, exec, tcpSocket and grpc",
    ),
    "a port of no container": (
        {"health": {"readiness": {"httpGet": {"port": "http"}}}},
        "RuntimeInvalid",
        "spec.health.readiness.httpGet.port: 'http' is no port of the container; expected 'api'",
    ),
    "another vendor": ({"vendor": "amd"}, "RuntimeInvalid", "spec.vendor"),
    "an unknown field": ({"vendr": "nvidia"}, "RuntimeInvalid", "did you mean vendor?"),
}


@pytest.mark.parametrize(("spec", "reason", "words"), BROKEN.values(), ids=list(BROKEN))
def test_a_mistake_is_told_by_its_reason_and_its_field(spec: Obj, reason: str, words: str) -> None:
    found = accepted(runtime_request(spec))
    assert (found["status"], found["reason"]) == ("False", reason)
    assert words in found["message"]


@pytest.mark.parametrize(("spec", "reason", "words"), BROKEN.values(), ids=list(BROKEN))
def test_a_service_is_told_the_same(spec: Obj, reason: str, words: str) -> None:
    runtime = runtime_request(spec)["object"]
    world = World(service(runtime={"name": "vllm"}), runtime)
    world.settle()
    ready = world.condition("Ready")
    found = accepted(runtime_request(spec))
    assert (ready["reason"], ready["message"]) == (found["reason"], found["message"])


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (names.ACCELERATOR, "some", "the only value is 'none'"),
        (names.INFERENCE_PATHS, "b", "'b' is no path"),
        (names.IDLE_TIMEOUT, "soon", "'soon' is not a duration"),
        (
            "serving.noctaya.io/accelerators",
            "none",
            "accelerators: unknown annotation; did you mean",
        ),
        (names.GATEWAY_REPLICAS, "2", "is for an LLMService"),
    ],
)
def test_a_bad_annotation_is_quoted(annotation: str, value: str, words: str) -> None:
    found = accepted(runtime_request({}, **{annotation: value}))
    assert (found["status"], found["reason"]) == ("False", "RuntimeInvalid")
    assert words in found["message"]


# --- Of equal priority ----------------------------------------------------------------------------


def test_equals_are_accepted_and_named_since_no_service_can_select_them() -> None:
    found = accepted(runtime_request({}, "b", "a"))
    assert (found["status"], found["reason"]) == ("True", "RuntimeAmbiguous")
    assert "also that of a, b" in found["message"]


@pytest.mark.parametrize(
    "other",
    [
        {"spec": {"priority": 9}},
        {"spec": {"vendor": "ascend"}},
        {"spec": {"container": {"args": ["{{x}}"]}}},
    ],
    ids=["lower", "of another vendor", "broken"],
)
def test_what_no_selector_would_take_makes_nothing_ambiguous(other: Obj) -> None:
    body = runtime_request({}, "other")
    known = body["related"][names.RUNTIMES]
    known["other"] = merged(known["other"], other)
    assert accepted(body)["reason"] == "Accepted"


def test_two_equals_below_a_higher_one_are_not_ambiguous() -> None:
    body = runtime_request({}, "equal", "higher")
    known = body["related"][names.RUNTIMES]
    known["higher"] = merged(known["higher"], {"spec": {"priority": 11}})
    assert accepted(body)["reason"] == "Accepted"


def test_all_runtimes_are_asked_for_and_nothing_else() -> None:
    body = {"parent": runtime_request({})["object"]}
    answer = questions.answer(questions.RUNTIME_CUSTOMIZE, body, settings=SETTINGS, now=NOON)
    (rule,) = wire.dump(answer)["relatedResources"]
    assert rule == {"apiVersion": "serving.noctaya.io/v1alpha1", "resource": "inferenceruntimes"}


# --- Written once ---------------------------------------------------------------------------------


def written(body: Obj, status: Obj) -> Obj:
    copied: Obj = json.loads(json.dumps(body))
    copied["object"]["status"] = status
    return copied


def test_a_quiet_runtime_is_silent() -> None:
    for spec in ({}, {"vendor": "amd"}):
        body = runtime_request(spec)
        status = ask(body)["status"]
        assert ask(written(body, status), after_seconds=3600)["status"] == status


def test_the_time_moves_with_the_status_and_not_with_the_reason() -> None:
    good, ambiguous = runtime_request({}), runtime_request({}, "other")
    before = ask(good)["status"]
    after = ask(written(ambiguous, before), after_seconds=60)["status"]
    assert after["conditions"][0]["reason"] == "RuntimeAmbiguous"
    times = [s["conditions"][0]["lastTransitionTime"] for s in (before, after)]
    assert times == ["2026-06-01T12:00:00Z"] * 2
    broken = written(runtime_request({"vendor": "amd"}), after)
    assert (
        "T12:01:00Z"
        in ask(broken, after_seconds=60)["status"]["conditions"][0]["lastTransitionTime"]
    )


@pytest.mark.parametrize("status", [None, "x", [], {"conditions": "x"}, {"conditions": [None, 1]}])
def test_a_status_of_another_time_is_overwritten(status: Any) -> None:
    body = runtime_request({})
    assert ask(written(body, status))["status"] == ask(body)["status"]


def test_a_runtime_needs_no_namespace_and_a_name() -> None:
    body = runtime_request({})
    del body["object"]["metadata"]["name"]
    with pytest.raises(wire.RequestError, match=r"metadata\.name"):
        ask(body)
