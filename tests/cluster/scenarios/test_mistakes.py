"""A user's mistake never deletes anything and never lowers a number."""

import json

import pytest

from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint


@pytest.fixture(scope="module")
def pair(start: Start) -> Endpoint:
    service = start("pair", replicas=(2, 2))
    service.wait_ready(2)
    service.wait_condition("AutoscalingReady", "True", "ScaledObjectReady")
    return service


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        pytest.param({"runtime": {"name": "ecko"}}, "ecko", id="a runtime that does not exist"),
        pytest.param(
            {"scaling": {"metric": "kvCacheUtil"}},
            "kvCacheUtil",
            id="a metric that is not implemented",
        ),
    ],
)
def test_a_typo_keeps_both_replicas_and_deletes_nothing(
    pair: Endpoint, mistake: dict[str, object], named: str
) -> None:
    right = pair.service()["spec"]
    pods = {pod["metadata"]["uid"] for pod in pair.pods()}
    since = pair.cluster.audit.mark()
    _patch(pair, mistake)

    def told() -> bool:
        seen = pair.condition("Ready")
        assert seen["status"] == "False", seen
        assert named in seen["message"], seen
        assert pair.service()["status"]["observedGeneration"] == _generation(pair)
        return True

    pair.cluster.wait("the status names the mistake", told)
    answer = pair.ask("Unmoved")
    _patch(pair, right)
    pair.wait_ready(2)

    assert answer.finished
    assert "Unmoved" in answer.text
    assert pair.replica_numbers(since) in ([], [2])
    assert {pod["metadata"]["uid"] for pod in pair.pods()} == pods
    assert not pair.deletions(since)


def _patch(service: Endpoint, spec: dict[str, object]) -> None:
    service.cluster.kubectl(
        "patch",
        f"llmservice/{service.name}",
        f"-n={service.namespace}",
        "--type=merge",
        f"--patch={json.dumps({'spec': spec})}",
    )


def _generation(service: Endpoint) -> int:
    return int(service.service()["metadata"]["generation"])
