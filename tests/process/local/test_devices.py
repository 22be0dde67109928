"""A device has no spare: a replica that ends holds it until it is gone."""

import time

import requests

from tests.process.local.conftest import Manifests, Start, Up

YOUTH_SECONDS = 60


def wake_while_it_ends(running: Up) -> int:
    """How many engines run when a request comes while the last one still ends."""
    running.wait_until_it_sleeps()
    running.client.completions.create(model="echo", prompt="Hello")
    told = len(running.lines())
    running.wait_until_it_sleeps(after=told, seconds=YOUTH_SECONDS + 60)
    wait_until_the_gateway_knows(running)
    assert len(running.engines()) == 1
    running.client.completions.create(model="echo", prompt="Hello")
    return len(running.engines())


def wait_until_the_gateway_knows(running: Up) -> None:
    """Until then the replica that ends still serves, as it should."""
    deadline = time.monotonic() + 10
    queue = running.url.removesuffix("/v1") + "/noctaya/queue"
    while requests.get(queue, timeout=10).json()["replicas"]["ready"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_replica_without_a_device_starts_beside_one_that_ends(
    up: Start, manifests: Manifests
) -> None:
    manifests.scaling["scaleDownStabilization"] = "1s"
    assert wake_while_it_ends(up(manifests.write())) == 2


def test_a_replica_with_a_device_waits_for_it(up: Start, manifests: Manifests) -> None:
    manifests.scaling["scaleDownStabilization"] = "1s"
    del manifests.runtime["metadata"]["annotations"]["serving.noctaya.io/accelerator"]
    assert wake_while_it_ends(up(manifests.write())) == 1
