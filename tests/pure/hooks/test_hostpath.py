"""Weights in a folder of each node: staged by the replica itself, the one exception to rule 2."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from hooks import settings
from hooks.llmservice import names
from hooks.llmservice.environment import OPEN_FOLDERS
from tests.pure.hooks.scenes import ARTIFACT, HUB, MODELSCOPE, VLLM, scheduled
from tests.pure.hooks.staging.moments import DIGEST, awake, engine, env, replicas, template
from tests.pure.hooks.world import SETTINGS, Obj, World, service, serving

PLAIN_HUB: Obj = {"model": {"source": {"uri": "hf://org/name"}}}
CLAIM: Obj = {"model": {"source": {"uri": "pvc://weights/llama"}}}
ON_NODE: Obj = {"strategy": "HostPath"}
STAGED: Obj = {"strategy": "HostPath", "prewarm": True}
FINAL = "not found: hf://org/name@v1 is not there: check the name and the revision"


def world_of(source: Obj = HUB, cache: Obj = STAGED, **spec: Any) -> World:
    parent = service(**source, cache=cache, runtime={"name": "vllm"}, **spec)
    return World(parent, json.loads(json.dumps(VLLM)))


def settled(source: Obj = HUB, cache: Obj = STAGED, **spec: Any) -> World:
    world = world_of(source, cache, **spec)
    world.settle()
    return world


def asked_for() -> World:
    """At zero, then one replica is asked for and has a node."""
    world = serving(world_of(), replicas=0)
    world.scale(1)
    return world


def with_stager(world: World, **status: Any) -> World:
    world.pods.clear()
    stager = {"name": "fetcher", "image": "fetcher:1", **status}
    world.add_pod("m-backend-1", conditions=[scheduled()], initContainerStatuses=[stager])
    world.settle()
    return world


def ended(code: int, message: str, at: str = "2026-06-01T12:00:00Z") -> Obj:
    return {"terminated": {"exitCode": code, "message": message, "finishedAt": at}}


def stager(world: World) -> Obj:
    (found,) = template(world)["spec"]["initContainers"]
    made: Obj = found
    return made


def volume(world: World) -> Obj:
    found: Obj = next(v for v in template(world)["spec"]["volumes"] if v["name"] == "cache")
    return found


# --- What stands where ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "prewarm", "stages", "path", "offline"),
    [
        (PLAIN_HUB, False, False, "org/name", False),
        (PLAIN_HUB, True, True, "org/name", True),
        (HUB, True, True, "org/name", True),
        (MODELSCOPE, False, False, "org/name", False),
        (MODELSCOPE, True, True, "/cache/modelscope/org--name/master", False),
        (ARTIFACT, False, True, f"/cache/oci/{DIGEST.replace(':', '-')}", False),
        (ARTIFACT, True, True, f"/cache/oci/{DIGEST.replace(':', '-')}", False),
        (CLAIM, False, False, "/models", False),
    ],
)
def test_each_source_is_staged_on_the_node_or_fetched_by_the_engine(
    source: Obj, prewarm: bool, stages: bool, path: str, offline: bool
) -> None:
    world = settled(source, ON_NODE | {"prewarm": prewarm})
    assert ("initContainers" in template(world)["spec"]) == stages
    assert engine(world)["args"][1] == path
    assert ("HF_HUB_OFFLINE" in env(engine(world))) == offline
    assert ("VLLM_USE_MODELSCOPE" in env(engine(world))) == (source is MODELSCOPE and not stages)
    assert not world.owned[names.CLAIMS]
    assert not world.owned[names.JOBS]
    folder = {"path": "/var/lib/noctaya/ns/m", "type": "DirectoryOrCreate"}
    assert volume(world) == {"name": "cache", "hostPath": folder}


@pytest.mark.parametrize(
    ("source", "cache"), [(HUB, ON_NODE), (CLAIM, STAGED)], ids=["revision", "claim"]
)
def test_what_no_staging_can_do_is_refused_here_too(source: Obj, cache: Obj) -> None:
    assert settled(source, cache).ready()[2] == "SpecInvalid"


def test_twins_of_one_name_never_share_a_folder() -> None:
    folders = set()
    for namespace, name in [("a", "b"), ("a-b", "c"), ("a", "b-c"), ("b", "b")]:
        folders.add(names.node_folder("/root", namespace, names.ServiceName(name)))
    assert len(folders) == 4


def test_the_engine_finds_staged_weights_and_keeps_its_caches_beside_them() -> None:
    world = settled()
    given = env(engine(world))
    assert given["HF_HOME"] == "/cache"
    assert given["VLLM_CACHE_ROOT"] == "/cache/vllm"
    assert given["XDG_CACHE_HOME"] == "/cache/xdg"
    # What its user may not be able to write.
    assert given["HF_MODULES_CACHE"].startswith("/tmp/")
    assert given["HOME"] == "/tmp"
    opened = [f"--open-folder={folder}" for folder in OPEN_FOLDERS]
    assert opened == ["--open-folder=vllm", "--open-folder=xdg"]
    assert [a for a in stager(world)["args"] if "open" in a] == opened
    mount = next(m for m in engine(world)["volumeMounts"] if m["name"] == "cache")
    assert mount == {"mountPath": "/cache", "name": "cache"}
    # Means nothing on a folder of the node, and a kubelet would ignore it.
    assert "securityContext" not in template(world)["spec"]


def test_only_the_stager_is_root_with_what_it_needs_and_no_more() -> None:
    world = settled()
    assert stager(world)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["DAC_OVERRIDE", "FOWNER"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "runAsUser": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert engine(world)["securityContext"] == {"allowPrivilegeEscalation": False}
    assert "limits" not in stager(world)["resources"]


def test_the_stager_gets_what_a_job_would_get() -> None:
    world = settled(ARTIFACT, ON_NODE)
    job = awake(**ARTIFACT, cache={}).job()["spec"]["template"]["spec"]["containers"][0]
    mine = stager(world)
    own = {"args", "securityContext"}
    assert {k: v for k, v in mine.items() if k not in own} == {
        k: v for k, v in job.items() if k not in own
    }
    assert [a for a in mine["args"] if "open-folder" not in a] == job["args"]
    secret = {"defaultMode": 0o400, "secretName": "pull"}
    assert {"name": "auth", "secret": secret} in template(world)["spec"]["volumes"]
    hub = stager(settled(HUB))
    assert [variable["name"] for variable in hub["env"]] == ["HF_TOKEN"]


# --- The administrator's part ---------------------------------------------------------------------


def test_without_a_root_the_administrator_is_told_what_to_set() -> None:
    world = world_of()
    world.settings = dataclasses.replace(SETTINGS, host_path_root="")
    world.settle()
    assert world.ready()[2] == "HostPathDisabled"
    assert "NOCTAYA_HOST_PATH_ROOT" in world.condition("Ready")["message"]
    assert not any(world.owned.values())


def test_a_root_that_goes_away_leaves_the_engine_alone() -> None:
    world = serving(world_of(), replicas=1)
    before = json.dumps(world.owned)
    world.settings = dataclasses.replace(SETTINGS, host_path_root="")
    world.settle()
    assert json.dumps(world.owned) == before
    assert world.ready()[2] == "HostPathDisabled"


def test_without_a_fetcher_only_what_is_staged_is_refused() -> None:
    for source, cache, reason in (
        (HUB, STAGED, "FetcherMissing"),
        (PLAIN_HUB, ON_NODE, "GatewayStarting"),
    ):
        world = world_of(source, cache)
        world.settings = dataclasses.replace(SETTINGS, fetcher_image="")
        world.settle()
        assert world.ready()[2] == reason


@pytest.mark.parametrize(
    ("written", "read"),
    [("", ""), ("/var/lib/noctaya", "/var/lib/noctaya"), ("/models/", "/models")],
)
def test_the_root_is_an_absolute_folder(written: str, read: str) -> None:
    environment = {"NOCTAYA_GATEWAY_IMAGE": "g", "NOCTAYA_HOST_PATH_ROOT": written}
    assert settings.from_environment(environment).host_path_root == read


@pytest.mark.parametrize(
    "written", ["/", "models", "./m", "/a/../b", "/a/./b", "/a//b", "/..", " "]
)
def test_a_root_that_is_none_is_refused_with_what_was_found(written: str) -> None:
    environment = {"NOCTAYA_GATEWAY_IMAGE": "g", "NOCTAYA_HOST_PATH_ROOT": written}
    with pytest.raises(settings.SettingsError, match="NOCTAYA_HOST_PATH_ROOT is"):
        settings.from_environment(environment)


# --- Replicas and releases ------------------------------------------------------------------------


def test_nothing_waits_for_weights_that_no_job_can_stage() -> None:
    world = settled(scaling={"min": 1, "max": 2})
    assert replicas(world) == 1
    world.gateway_becomes(available=True)
    world.settle()
    assert world.scaled_object()["spec"]["minReplicaCount"] == 1


def test_a_release_of_ours_with_another_fetcher_restarts_no_engine() -> None:
    world = serving(world_of(), replicas=1)
    before = json.dumps(template(world))
    world.settings = dataclasses.replace(
        SETTINGS, fetcher_image="fetcher:2", image_pull_policy="Always"
    )
    world.settle()
    assert json.dumps(template(world)) == before


def test_the_newer_fetcher_comes_with_the_next_change_of_the_template() -> None:
    world = serving(world_of(), replicas=1)
    world.settings = dataclasses.replace(SETTINGS, fetcher_image="fetcher:2")
    world.edit(resources={"memory": "64Gi"})
    world.settle()
    assert stager(world)["image"] == "fetcher:2"
    assert world.settle() == []


def test_a_claim_and_its_job_stay_when_the_weights_move_to_the_nodes() -> None:
    world = awake()
    before = json.dumps([world.owned[names.CLAIMS], world.owned[names.JOBS]])
    world.edit(cache=STAGED)
    world.settle()
    assert json.dumps([world.owned[names.CLAIMS], world.owned[names.JOBS]]) == before
    assert "hostPath" in volume(world)


# --- Status ---------------------------------------------------------------------------------------


def test_a_replica_that_stages_says_that_it_holds_its_accelerator() -> None:
    world = with_stager(asked_for(), state={"running": {}})
    assert world.ready() == ("Loading", "False", "StagingOnNode")
    message = world.condition("Ready")["message"]
    assert "holds the accelerator" in message
    assert "kubectl logs -n ns -l " in message
    assert "-c fetcher" in message


def test_a_pull_of_the_fetchers_image_is_a_start_like_any_other() -> None:
    waits = {"waiting": {"reason": "PodInitializing"}}
    assert with_stager(asked_for(), state=waits).ready()[2] == "Starting"


@pytest.mark.parametrize(
    ("state", "last"),
    [
        (ended(11, FINAL), {}),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, ended(11, FINAL)),
        ({"running": {}}, ended(11, FINAL)),
    ],
    ids=["ended", "backing-off", "trying-again"],
)
def test_a_failure_that_no_try_can_mend_is_told_with_the_fetchers_line(
    state: Obj, last: Obj
) -> None:
    world = with_stager(asked_for(), state=state, lastState=last)
    assert world.ready() == ("Degraded", "False", "PrewarmFailed")
    assert FINAL in world.condition("Degraded")["message"]


def test_the_failure_stays_visible_when_keda_took_the_replica_away() -> None:
    world = with_stager(asked_for(), state=ended(10, "unauthorized: set HF_TOKEN"))
    world.scale(0)
    world.pods.clear()
    world.settle()
    assert world.ready()[2] == "PrewarmFailed"
    message = world.condition("Ready")["message"]
    assert message.startswith("last activation failed: ")
    assert "unauthorized: set HF_TOKEN" in message


@pytest.mark.parametrize("state", [{"waiting": {"reason": "CrashLoopBackOff"}}, {"running": {}}])
def test_an_outage_is_an_attempt_that_is_made_again(state: Obj) -> None:
    said = "unavailable: the hub does not answer"
    world = with_stager(asked_for(), state=state, lastState=ended(20, said))
    assert world.ready() == ("Loading", "False", "StagingOnNode")
    assert f"made again: {said}" in world.condition("Ready")["message"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerConfigInvalid"),
    ],
)
def test_a_stager_that_cannot_start_is_a_failure(reason: str, told: str) -> None:
    world = with_stager(asked_for(), state={"waiting": {"reason": reason, "message": "no"}})
    assert world.ready()[2] == told
    assert "fetcher" in world.condition("Ready")["message"]


def test_a_download_is_never_too_slow_and_the_start_after_it_has_its_whole_time() -> None:
    world = with_stager(asked_for(), state={"running": {}})
    world.pass_time(100_000)
    world.settle()
    assert world.ready()[2] == "StagingOnNode"
    at = world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    status = world.pods["ns/m-backend-1"]["status"]
    status["initContainerStatuses"][0]["state"] = ended(0, "", at)
    status["containerStatuses"] = [{"name": "engine", "state": {"running": {}}}]
    world.pass_time(60)
    world.settle()
    assert world.ready()[2] == "ModelLoading"
    world.pass_time(100_000)
    world.settle()
    assert world.ready()[2] == "ProgressDeadlineExceeded"


def test_a_quiet_world_is_silent_at_every_stage() -> None:
    for world in (settled(), serving(world_of()), with_stager(asked_for(), state={"running": {}})):
        assert world.settle() == []
