"""The Job that stages the weights: what it may do, and what it does not follow."""

from __future__ import annotations

import dataclasses
import json

from fetcher import errors
from hooks import wire
from hooks.llmservice import names
from hooks.llmservice.sync import sync
from tests.pure.hooks.staging.moments import (
    DIGEST,
    asleep,
    fetcher,
    replicas,
    staging,
    template,
    world_of,
)
from tests.pure.hooks.world import NOON, SETTINGS


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
