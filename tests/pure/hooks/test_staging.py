"""Weights that are staged before any replica starts (rules 2, 3 and 6)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import pytest

from fetcher import errors, layout, uris
from hooks import wire
from hooks.autoscaling import render as autoscaling
from hooks.llmservice import names
from hooks.llmservice.sync import sync
from tests.pure.hooks.scenes import VLLM
from tests.pure.hooks.world import NOON, SETTINGS, Obj, World, service, serving

DIGEST = "sha256:" + "0a" * 32
STAGED: dict[str, Any] = {
    "model": {"source": {"uri": "hf://org/name@v1"}},
    "cache": {"strategy": "NodeLocalPVC", "prewarm": True},
    "runtime": {"name": "vllm"},
}


def world_of(**spec: Any) -> World:
    return World(service(**STAGED | spec), json.loads(json.dumps(VLLM)))


def staging(**spec: Any) -> World:
    """The Job runs, and the gateway is there."""
    world = world_of(**spec)
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    return world


def staged(**spec: Any) -> World:
    world = staging(**spec)
    world.job_ends(complete=True)
    world.settle()
    return world


def asleep(**spec: Any) -> World:
    """Staged, handed over to KEDA, and at zero."""
    world = staged(**spec)
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.scale(0)
    world.settle()
    return world


def awake(**spec: Any) -> World:
    world = asleep(**spec)
    world.scale(1, ready=1)
    world.settle()
    return world


def replicas(world: World) -> int:
    number: int = world.deployment("backend")["spec"]["replicas"]
    return number


def template(world: World) -> Obj:
    found: Obj = world.deployment("backend")["spec"]["template"]
    return found


def engine(world: World) -> Obj:
    found: Obj = template(world)["spec"]["containers"][0]
    return found


def env(container: Obj) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container.get("env", []) if "value" in e}


def fetcher(world: World) -> Obj:
    found: Obj = world.job()["spec"]["template"]["spec"]["containers"][0]
    return found


def copied(world: World) -> Obj:
    found: Obj = json.loads(json.dumps(world.owned | world.attached))
    return found


def is_paused(world: World) -> bool:
    annotations: Obj = world.scaled_object()["metadata"].get("annotations", {})
    paused: bool = annotations.get(autoscaling.PAUSED_SCALE_OUT) == "true"
    return paused


# --- From nothing to serving ----------------------------------------------------------------------


def test_the_job_is_made_once_its_claim_is_seen_and_carries_its_uid() -> None:
    world = world_of()
    world.run_composite()
    assert "ns/m-prewarm" not in world.owned[names.JOBS]
    world.run_composite()
    uid = world.owned[names.CLAIMS]["ns/m-cache"]["metadata"]["uid"]
    assert world.job()["metadata"]["annotations"][names.CLAIM_UID] == uid


@pytest.mark.parametrize("least", [0, 2])
def test_no_replica_is_asked_for_and_nothing_is_attached_until_weights_are_staged(
    least: int,
) -> None:
    world = staging(scaling={"min": least, "max": 2})
    assert replicas(world) == 0
    assert names.AUTOSCALING not in world.parent["metadata"].get("annotations", {})
    assert not world.attached["ScaledObject.keda.sh/v1alpha1"]
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert world.condition("AutoscalingReady")["reason"] == "Prewarming"
    world.job_ends(complete=True)
    world.settle()
    assert replicas(world) == least
    assert world.scaled_object()["spec"]["minReplicaCount"] == least


def test_staging_complete_without_keda_starts_the_minimum() -> None:
    world = world_of(scaling={"min": 1, "max": 1})
    for _ in range(3):
        world.run_composite()
    assert replicas(world) == 0
    world.job_ends(complete=True)
    world.run_composite()
    assert replicas(world) == 1


def test_a_number_that_somebody_wrote_while_weights_are_staged_is_echoed() -> None:
    world = staging()
    world.scale(3)
    world.settle()
    assert replicas(world) == 3


def test_prewarming_names_the_logs_to_read() -> None:
    world = staging()
    running = {"name": "fetcher", "state": {"running": {}}}
    world.add_prewarm_pod("m-prewarm-a", "Running", containerStatuses=[running])
    world.settle()
    message = world.condition("Ready")["message"]
    assert "kubectl logs -n ns job/m-prewarm --follow" in message


def test_a_job_without_a_pod_says_where_to_look() -> None:
    """A quota or Pod Security refuses it, and only an Event says so."""
    message = staging().condition("Ready")["message"]
    assert "kubectl describe job m-prewarm -n ns" in message


def test_no_job_is_made_for_a_claim_that_is_about_to_go() -> None:
    world = world_of()
    world.run_composite()
    claim = world.owned[names.CLAIMS]["ns/m-cache"]
    claim["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    world.settle()
    assert not world.owned[names.JOBS]
    world.gateway_becomes(available=True)
    world.settle()
    assert "once claim m-cache is there" in world.condition("Ready")["message"]


def test_at_zero_with_staged_weights_a_request_will_be_served() -> None:
    assert asleep().ready() == ("ScaledToZero", "True", "ScaledToZero")


def test_a_quiet_world_is_silent_at_every_stage() -> None:
    for world in (staging(), staged(), asleep(), awake()):
        assert world.settle() == []


# --- The Job --------------------------------------------------------------------------------------


def test_the_job_asks_for_no_accelerator_and_runs_where_the_engine_will() -> None:
    pod = staging(imagePullSecrets=[{"name": "registry"}]).job()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "limits" not in container["resources"]
    assert pod["nodeSelector"] == {"gpu": "h100"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert "schedulerName" not in pod
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert container["image"] == SETTINGS.fetcher_image


def test_the_job_fits_the_restricted_pod_security_profile() -> None:
    pod = staging().job()["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "fsGroup": 65532,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


def test_the_job_ends_at_once_on_every_failure_that_another_try_cannot_mend() -> None:
    """By the exit codes of the fetcher itself."""
    spec = staging().job()["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    retried = (errors.Unavailable, errors.TimedOut, errors.Interrupted)
    final = {kind.exit_code for kind in errors.FetchError.__subclasses__() if kind not in retried}
    assert set(rule["onExitCodes"]["values"]) == final
    assert rule["onExitCodes"]["containerName"] == fetcher(staging())["name"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_download_gets_of_the_runtimes_environment_only_what_it_needs() -> None:
    world = world_of()
    secret = {"secretKeyRef": {"name": "hub", "key": "token"}}
    world.runtimes[0]["spec"]["container"]["env"] += [
        {"name": "HTTPS_PROXY", "value": "http://proxy"},
        {"name": "HF_ENDPOINT", "value": "http://hub.{{ .Service.Namespace }}"},
        {"name": "MODELSCOPE_API_TOKEN", "valueFrom": secret},
        {"name": "VLLM_API_KEY", "valueFrom": secret},
    ]
    world.settle()
    given = fetcher(world)["env"]
    assert [variable["name"] for variable in given] == ["HF_TOKEN", "HTTPS_PROXY", "HF_ENDPOINT"]
    assert given[0]["valueFrom"]["secretKeyRef"]["name"] == "hub"
    assert given[2]["value"] == "http://hub.ns"


def test_a_registrys_secret_is_mounted_and_named() -> None:
    source = {"uri": f"oci://r.example/m@{DIGEST}", "secretRef": {"name": "pull"}}
    world = staging(model={"source": source}, cache={})
    volumes = world.job()["spec"]["template"]["spec"]["volumes"]
    assert {"name": "auth", "secret": {"defaultMode": 0o440, "secretName": "pull"}} in volumes
    assert "--registry-auth=/auth/.dockerconfigjson" in fetcher(world)["args"]
    assert "env" not in fetcher(world)
    pod = template(world)["spec"]
    assert "pull" not in json.dumps(pod)


def test_an_existing_job_stays_as_it_was_whatever_the_runtime_becomes() -> None:
    world = staging()
    before = json.dumps(world.job())
    world.runtimes[0]["spec"]["accelerator"]["nodeSelector"] = {"gpu": "b300"}
    world.settle()
    assert json.dumps(world.job()) == before
    assert template(world)["spec"]["nodeSelector"] == {"gpu": "h100"}
    world.job_ends(complete=True)
    world.settle()
    assert template(world)["spec"]["nodeSelector"] == {"gpu": "b300"}


def test_a_newer_fetcher_does_not_question_a_job_that_ended() -> None:
    world = asleep()
    newer = dataclasses.replace(SETTINGS, fetcher_image="registry.example/noctaya/fetcher:2")
    request = wire.load(wire.CompositeRequest, world.composite_request())
    answer = wire.dump(sync(request, settings=newer, now=NOON))
    assert answer == world.ask_composite()


def test_a_job_of_a_stranger_is_left_alone_and_named() -> None:
    world = world_of()
    world.settle()
    world.job_is_deleted()
    stranger = {"name": "m-prewarm", "namespace": "ns", "uid": "x"}
    world.foreign.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": stranger})
    world.settle()
    assert not world.owned[names.JOBS]
    assert world.ready() == ("Degraded", "False", "ChildNameTaken")
    assert replicas(world) == 0


def test_without_a_fetcher_image_staging_is_refused_in_words() -> None:
    world = world_of()
    settings = dataclasses.replace(SETTINGS, fetcher_image="")
    request = wire.load(wire.CompositeRequest, world.composite_request())
    answer = wire.dump(sync(request, settings=settings, now=NOON))
    assert answer["children"] == []
    ready = next(c for c in answer["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "FetcherMissing"
    assert "NOCTAYA_FETCHER_IMAGE" in ready["message"]


# --- Where weights are ----------------------------------------------------------------------------


def model_path(world: World) -> str:
    path: str = engine(world)["args"][1]
    return path


def place(uri: str) -> pathlib.PurePosixPath:
    """Where the fetcher puts it, by its own code."""
    return pathlib.PurePosixPath("/cache") / layout.folder_of(uris.parse(uri), "commit").folder


@pytest.mark.parametrize(
    "uri",
    [
        "modelscope://org/name",
        "modelscope://org/na.me@v1",
        "modelscope://org/name@feature/x",
        f"oci://r.example:5000/a/b@{DIGEST}",
    ],
)
def test_the_engine_is_given_the_folder_that_the_fetcher_makes(uri: str) -> None:
    world = staged(model={"source": {"uri": uri}})
    assert fetcher(world)["args"][1] == uri
    assert model_path(world) == str(place(uri))
    assert "VLLM_USE_MODELSCOPE" not in env(engine(world))


@pytest.mark.parametrize("uri", ["hf://org/name", "huggingface://org/name@v1"])
def test_the_hubs_client_is_led_to_where_the_fetcher_puts_its_tree(uri: str) -> None:
    world = staged(model={"source": {"uri": uri}})
    assert model_path(world) == "org/name"
    given = env(engine(world))
    assert given["HF_HUB_OFFLINE"] == "1"
    # The client looks in HF_HOME/hub/models--ORG--NAME.
    assert place(uri).is_relative_to(f"{given['HF_HOME']}/hub/models--org--name")


def test_a_runtime_cannot_lead_the_engine_away_from_staged_weights() -> None:
    world = world_of()
    world.runtimes[0]["spec"]["container"]["env"] += [
        {"name": "HF_HOME", "value": "/elsewhere/hf"},
        {"name": "HF_HUB_CACHE", "value": "/elsewhere/hub"},
        {"name": "HF_HUB_OFFLINE", "value": "0"},
        {"name": "VLLM_CACHE_ROOT", "value": "/elsewhere"},
    ]
    world.settle()
    given = env(engine(world))
    assert (given["HF_HOME"], given["HF_HUB_OFFLINE"]) == ("/cache", "1")
    assert "HF_HUB_CACHE" not in given
    assert given["VLLM_CACHE_ROOT"] == "/elsewhere"
    assert len(engine(world)["env"]) == len({e["name"] for e in engine(world)["env"]})


def test_a_hub_without_staging_is_downloaded_by_the_engine() -> None:
    world = world_of(model={"source": {"uri": "modelscope://org/name"}}, cache={})
    world.settle()
    assert not world.owned[names.JOBS]
    assert model_path(world) == "org/name"
    given = env(engine(world))
    assert given["VLLM_USE_MODELSCOPE"] == "True"
    assert given["MODELSCOPE_CACHE"] == "/cache/modelscope-hub"
    assert "HF_HUB_OFFLINE" not in given


def cache_mount(world: World) -> Obj:
    found: Obj = next(m for m in engine(world)["volumeMounts"] if m["name"] == "cache")
    return found


def test_a_shared_cache_is_read_only_from_the_start_and_all_else_is_writable() -> None:
    world = staging(cache={"strategy": "SharedPVC", "prewarm": True})
    assert cache_mount(world)["readOnly"] is True
    given = env(engine(world))
    written = ("HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "HF_MODULES_CACHE")
    assert all(given[name].startswith("/tmp") for name in written)
    assert given["HF_HOME"] == "/cache"
    before = template(world)
    world.job_ends(complete=True)
    world.settle()
    assert template(world) == before


@pytest.mark.parametrize("strategy", ["NodeLocalPVC", "SharedPVC"])
def test_a_cache_that_the_engine_may_write_to_keeps_its_compile_cache(strategy: str) -> None:
    world = world_of(
        cache={"strategy": strategy, "prewarm": strategy == "NodeLocalPVC"},
        model={"source": {"uri": "hf://org/name"}},
    )
    world.settle()
    assert "readOnly" not in cache_mount(world)
    assert env(engine(world))["VLLM_CACHE_ROOT"] == "/cache/vllm"


def test_the_end_of_the_job_never_changes_the_template() -> None:
    world = staging()
    before = template(world)
    for end in (False, True):
        world.job_ends(complete=end)
        world.settle()
        assert template(world) == before


# --- Edits while a model serves -------------------------------------------------------------------


def test_another_source_is_refused_until_the_job_is_deleted() -> None:
    world = awake()
    before = copied(world)
    world.edit(model={"source": {"uri": "hf://org/name@v2"}})
    assert set(world.settle()) == {"status"}
    assert copied(world) == before
    assert world.ready() == ("Ready", "False", "PrewarmSpecChanged")
    assert "kubectl delete job m-prewarm -n ns" in world.condition("Ready")["message"]


def test_an_alias_of_the_source_is_the_same_source() -> None:
    world = awake()
    before = copied(world)
    world.edit(model={"source": {"uri": "huggingface://org/name@v1"}})
    assert world.settle() == ["status"]
    assert copied(world) == before
    assert world.ready()[2] == "Available"


def test_an_engine_rolls_onto_new_weights_when_they_are_there_and_not_before() -> None:
    world = awake(model={"source": {"uri": f"oci://r.example/m@{DIGEST}"}})
    gateway = world.deployment("gateway")["spec"]
    before = template(world)
    other = f"oci://r.example/m@sha256:{'1b' * 32}"
    world.edit(model={"source": {"uri": other}})
    world.job_is_deleted()
    world.settle()
    assert fetcher(world)["args"][1] == other
    assert template(world) == before
    assert world.deployment("gateway")["spec"] == gateway
    assert replicas(world) == 1
    world.job_ends(complete=True)
    world.settle()
    assert model_path(world) == str(place(other))
    assert replicas(world) == 1


def test_another_revision_of_the_same_repository_is_rolled_out_too() -> None:
    world = awake()
    before = template(world)
    world.edit(model={"source": {"uri": "hf://org/name@v2"}})
    world.job_is_deleted()
    world.settle()
    assert template(world) == before
    world.job_ends(complete=True)
    world.settle()
    assert template(world) != before


def test_staging_that_is_asked_for_later_leaves_the_engine_until_it_is_complete() -> None:
    world = serving(world_of(model={"source": {"uri": "hf://org/name"}}, cache={}))
    before = template(world)
    world.edit(cache={"prewarm": True})
    world.settle()
    assert template(world) == before
    assert world.ready() == ("Ready", "True", "Available")
    world.scale(0)
    world.settle()
    assert not is_paused(world)
    world.job_ends(complete=True)
    world.settle()
    assert env(engine(world))["HF_HUB_OFFLINE"] == "1"


def test_what_is_asked_of_the_gateway_alone_does_not_wait_for_staging() -> None:
    world = awake()
    world.job_is_deleted()
    world.edit(endpoint={"maxQueue": 7})
    world.settle()
    arguments = world.deployment("gateway")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--max-queue=7" in arguments


def test_deleting_the_job_while_serving_stages_again_and_stops_nothing() -> None:
    world = awake()
    before = copied(world)
    world.job_is_deleted()
    assert world.settle() == ["Create Job ns/m-prewarm"]
    after = copied(world)
    assert after.pop(names.JOBS)
    before.pop(names.JOBS)
    assert after == before
    assert world.ready() == ("Ready", "True", "Available")
    world.scale(0)
    world.settle()
    assert not is_paused(world)
    assert world.ready() == ("Loading", "False", "Prewarming")
    world.scale(1, ready=1)
    world.settle()
    assert replicas(world) == 1


def test_staging_that_is_no_longer_asked_for_deletes_nothing_and_holds_nothing_up() -> None:
    world = staging(model={"source": {"uri": "hf://org/name"}})
    world.edit(cache={"strategy": "NodeLocalPVC"})
    world.settle()
    assert world.owned[names.JOBS]
    assert world.owned[names.CLAIMS]
    assert names.STAGED_ON not in world.deployment("backend")["metadata"]["annotations"]
    world.scale(1, ready=1)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")


def test_staging_that_is_asked_for_again_finds_its_job() -> None:
    world = awake(model={"source": {"uri": "hf://org/name"}})
    staged = world.parent["spec"]["cache"]
    world.edit(cache={"strategy": "NodeLocalPVC"})
    world.settle()
    world.edit(cache=staged)
    assert not [write for write in world.settle() if "Job" in write]


@pytest.mark.parametrize("moment", [staging, staged, asleep, awake], ids=lambda m: m.__name__)
def test_a_mistake_deletes_nothing_at_any_stage(moment: Any) -> None:
    world = moment()
    before = copied(world)
    for mistake in ({"typo": 1}, {"runtime": {"name": "missing"}}):
        world.edit(**mistake)
        assert set(world.settle()) <= {"status", "annotations"}
        after = copied(world)
        assert after[names.JOBS] == before[names.JOBS]
        assert after[names.CLAIMS] == before[names.CLAIMS]
        assert replicas(world) == before[names.DEPLOYMENTS]["ns/m-backend"]["spec"]["replicas"]


def test_another_claim_takes_the_job_with_it_whose_pod_would_keep_the_old_one() -> None:
    world = asleep()
    world.edit(cache={"strategy": "NodeLocalPVC", "size": "1Ti", "prewarm": True})
    world.settle()
    assert world.ready()[2] == "CacheSpecChanged"
    told = world.condition("Ready")["message"]
    assert "kubectl delete job/m-prewarm pvc/m-cache -n ns" in told
    world.job_is_deleted()
    del world.owned[names.CLAIMS]["ns/m-cache"]
    world.settle()
    claim = world.owned[names.CLAIMS]["ns/m-cache"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Ti"
    assert world.job()


# --- A claim that is not the one any more ---------------------------------------------------------


def test_while_the_claim_is_not_seen_the_job_stays_as_it_was() -> None:
    world = awake()
    job = json.dumps(world.job())
    request = world.composite_request()
    for group in (request["children"], request["related"]):
        group[names.CLAIMS] = {}
    answer = wire.dump(sync(wire.load(wire.CompositeRequest, request), settings=SETTINGS, now=NOON))
    (told,) = (child for child in answer["children"] if child["kind"] == "Job")
    assert told["spec"] == json.loads(job)["spec"]
    (backend,) = (
        c
        for c in answer["children"]
        if c["metadata"]["name"] == "m-backend" and c["kind"] == "Deployment"
    )
    assert backend["spec"]["replicas"] == 1


def test_a_replaced_claim_under_a_running_engine_stops_nothing() -> None:
    world = awake()
    world.claim_is_replaced()
    assert world.settle() == []
    assert world.ready() == ("Ready", "True", "Available")
    assert not is_paused(world)


def test_a_replaced_claim_at_zero_keeps_keda_from_starting_a_replica() -> None:
    world = asleep()
    scaled_object = copied(world)["ScaledObject.keda.sh/v1alpha1"]["ns/m"]["spec"]
    world.claim_is_replaced()
    world.settle()
    assert is_paused(world)
    assert world.scaled_object()["spec"] == scaled_object
    assert world.ready() == ("Degraded", "False", "CacheReplaced")
    assert "kubectl delete job m-prewarm -n ns" in world.condition("Ready")["message"]


def test_the_pause_ends_when_the_weights_are_staged_again_and_not_before() -> None:
    world = asleep()
    world.claim_is_replaced()
    world.settle()
    world.job_is_deleted()
    world.settle()
    assert is_paused(world)
    assert world.ready() == ("Loading", "False", "Prewarming")
    world.job_ends(complete=True)
    world.settle()
    assert not is_paused(world)
    assert world.ready() == ("ScaledToZero", "True", "ScaledToZero")


def test_the_pause_holds_under_a_mistake_and_through_an_outage() -> None:
    world = asleep()
    world.claim_is_replaced()
    world.edit(typo=1)
    world.settle()
    assert is_paused(world)
    world.gateway_becomes(available=False)
    world.settle()
    assert is_paused(world)


def test_a_pause_of_somebody_else_stays_theirs() -> None:
    world = asleep()
    world.scaled_object()["metadata"].setdefault("annotations", {})[
        autoscaling.PAUSED_SCALE_OUT
    ] = "true"
    assert world.settle() == []
    assert is_paused(world)


# --- What the Job says ----------------------------------------------------------------------------


def failed(code: int, line: str, at: str = "2026-06-01T12:00:00Z") -> Obj:
    ended = {"exitCode": code, "reason": "Error", "message": line, "finishedAt": at}
    return {"name": "fetcher", "state": {"terminated": ended}}


NOT_FOUND = (
    "not found: hf://org/name@v1 is not there: check the name, and HF_TOKEN if it is private"
)


def test_a_failed_job_is_told_with_the_fetchers_one_line() -> None:
    world = staging()
    world.add_prewarm_pod("m-prewarm-a", "Failed", containerStatuses=[failed(11, NOT_FOUND)])
    world.job_ends(complete=False, message="Pod ns/m-prewarm-a failed with exit code 11")
    world.settle()
    assert world.ready() == ("Degraded", "False", "PrewarmFailed")
    degraded = world.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "PrewarmFailed")
    assert NOT_FOUND in degraded["message"]
    assert "kubectl delete job m-prewarm -n ns" in degraded["message"]
    assert replicas(world) == 0
    assert world.settle() == []


def test_a_failed_job_whose_pods_are_gone_still_says_what_kubernetes_remembers() -> None:
    world = staging()
    world.job_ends(complete=False, message="Pod ns/m-prewarm-a failed with exit code 11")
    world.settle()
    assert "exit code 11" in world.condition("Degraded")["message"]


def test_deleting_a_failed_job_tries_again() -> None:
    world = staging()
    world.add_prewarm_pod("m-prewarm-a", "Failed", containerStatuses=[failed(11, NOT_FOUND)])
    world.job_ends(complete=False)
    world.settle()
    uid = world.job()["metadata"]["uid"]
    world.job_is_deleted()
    world.settle()
    world.job()["metadata"]["uid"] = f"{uid}-2"
    world.settle()
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert NOT_FOUND not in world.condition("Ready")["message"]


def test_an_attempt_that_is_made_again_is_told_while_it_lasts() -> None:
    world = staging()
    for name, at, line in (
        ("m-prewarm-b", "2026-06-01T12:00:00Z", "unavailable: first"),
        ("m-prewarm-a", "2026-06-01T12:01:00Z", "unavailable: second"),
    ):
        world.add_prewarm_pod(name, "Failed", containerStatuses=[failed(20, line, at)])
    running = {"name": "fetcher", "state": {"running": {}}}
    world.add_prewarm_pod("m-prewarm-c", "Running", containerStatuses=[running])
    world.settle()
    message = world.condition("Ready")["message"]
    assert world.ready() == ("Loading", "False", "Prewarming")
    assert "unavailable: second" in message
    assert "first" not in message


def test_a_job_without_a_node_says_why_and_what_to_do() -> None:
    world = staging()
    words = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"
    unscheduled = {"type": "PodScheduled", "status": "False", "message": words}
    world.add_prewarm_pod("m-prewarm-a", conditions=[unscheduled])
    world.settle()
    message = world.condition("Ready")["message"]
    assert words in message
    assert "claim m-cache with no StorageClass is Pending" in message
    assert "kubectl delete job m-prewarm -n ns" in message


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerConfigInvalid"),
    ],
)
def test_a_fetcher_that_cannot_start_is_a_failure(waiting: str, reason: str) -> None:
    world = staging()
    status = {"name": "fetcher", "image": "f", "state": {"waiting": {"reason": waiting}}}
    world.add_prewarm_pod("m-prewarm-a", containerStatuses=[status])
    world.settle()
    assert world.ready() == ("Degraded", "False", reason)


def test_a_serving_model_is_ready_whatever_the_job_says() -> None:
    world = awake()
    world.job_ends(complete=False)
    world.settle()
    assert world.ready() == ("Ready", "True", "Available")
