"""A runtime says whether services can run on it, before one fails on it."""

import json
import os
from collections.abc import Iterator

import pytest

from tests.cluster import audit, noctaya
from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.conftest import Start

NAME = f"spoken-{os.urandom(2).hex()}"


@pytest.fixture
def since(installed: running.Cluster) -> audit.Mark:
    """Before there is a runtime, which may be answered at once."""
    return installed.audit.mark()


@pytest.fixture
def runtime(installed: running.Cluster, since: audit.Mark) -> Iterator[builders.Object]:
    made = builders.runtime(NAME)
    # Below the other runtimes of the rig, so that none of them makes it ambiguous.
    made["spec"]["priority"] = -1000
    installed.apply(made)
    yield made
    installed.kubectl("delete", "inferenceruntime", NAME, "--ignore-not-found")


def test_a_runtime_is_accepted_broken_and_repaired(
    installed: running.Cluster, since: audit.Mark, runtime: builders.Object, start: Start
) -> None:
    _wait_told(installed, "True", "Accepted")
    service = start("speaking", NAME)
    service.wait_armed()

    _set_args(installed, ["--model={{ .Model.Name }}"])
    _wait_told(installed, "False", "RuntimeInvalid")
    assert "{{ .Model.Name }}" in _accepted(installed)["message"]
    # A service says the same, and has lost nothing.
    service.wait_condition("Ready", "False", "RuntimeInvalid")
    assert service.ask("As before").finished

    _set_args(installed, runtime["spec"]["container"]["args"])
    _wait_told(installed, "True", "Accepted")
    service.wait_ready()
    assert not service.deletions()
    written = [event.response for event in _status_writes(installed, since) if event.response]
    told = [made["status"]["conditions"][0]["reason"] for made in written]
    assert told == ["Accepted", "RuntimeInvalid", "Accepted"]
    assert [made["status"]["observedGeneration"] for made in written] == [1, 2, 3]


def test_the_list_of_runtimes_shows_who_is_accepted(
    installed: running.Cluster, runtime: builders.Object
) -> None:
    _wait_told(installed, "True", "Accepted")
    head, line = installed.kubectl("get", "irt", NAME).splitlines()
    shown = dict(zip(head.split(), line.split(), strict=True))
    image = runtime["spec"]["container"]["image"]
    assert {**shown, "AGE": ""} == {
        "NAME": NAME,
        "VENDOR": "nvidia",
        "PRIORITY": "-1000",
        "ACCEPTED": "True",
        "REASON": "Accepted",
        "IMAGE": image,
        "AGE": "",
    }


def _accepted(cluster: running.Cluster) -> builders.Object:
    """The condition Accepted; an AssertionError where it is not about the runtime as it is."""
    found = cluster.get("inferenceruntime", NAME)
    assert found is not None
    status = found.get("status", {})
    assert status.get("observedGeneration") == found["metadata"]["generation"], status
    condition: builders.Object = status["conditions"][0]
    return condition


def _wait_told(cluster: running.Cluster, status: str, reason: str) -> None:
    def told() -> bool:
        seen = _accepted(cluster)
        assert (seen["status"], seen["reason"]) == (status, reason), seen
        return True

    cluster.wait(f"the runtime is {status} {reason}", told)


def _set_args(cluster: running.Cluster, args: list[str]) -> None:
    patch = json.dumps({"spec": {"container": {"args": args}}})
    cluster.kubectl("patch", "inferenceruntime", NAME, "--type=merge", f"--patch={patch}")


def _status_writes(cluster: running.Cluster, since: audit.Mark) -> list[audit.Event]:
    return cluster.audit.writes(
        since=since,
        user=noctaya.METACONTROLLER,
        resource="inferenceruntimes",
        subresource="status",
        name=NAME,
    )
