"""A quiet cluster is silent."""

import datetime
import os
import time
from collections.abc import Iterator

import pytest

from tests.cluster import audit
from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

QUIET_SECONDS = 120
IDLE_SERVICES = 20

# What we write for one of them. A ScaledObject's status is KEDA's to write.
KINDS = ("llmservice", "deployment", "service", "serviceaccount", "rolebinding")

# Their gateways start all at once, on a machine that is busy otherwise.
STARTING_SECONDS = 240.0

# KEDA's own words about a new ScaledObject may still reach the status this long after.
SETTLING = datetime.timedelta(seconds=15)


@pytest.fixture(scope="module", autouse=True)
def idle(installed: running.Cluster) -> Iterator[list[Endpoint]]:
    """Many services in a namespace of their own."""
    names = [f"idle-{number}" for number in range(IDLE_SERVICES)]
    namespace = f"idle-{os.urandom(2).hex()}"
    installed.kubectl("create", "namespace", namespace)
    services = [builders.service(namespace, name, "echo-quick") for name in names]
    installed.apply({"apiVersion": "v1", "kind": "List", "items": services})
    yield [Endpoint(installed, namespace, name) for name in names]
    installed.kubectl("delete", "namespace", namespace, "--wait=false")


def test_idle_services_are_not_written_to(idle: list[Endpoint], start: Start) -> None:
    """By nobody at all, while other workers keep the cluster busy."""
    services = [start("quiet"), *idle]
    for service in services:
        service.wait_condition("Ready", "True", "ScaledToZero", STARTING_SECONDS)
    since = datetime.datetime.now(datetime.UTC) + SETTLING
    time.sleep(SETTLING.total_seconds())
    before = _versions(idle[0])
    assert len(before) >= IDLE_SERVICES * len(KINDS)
    time.sleep(QUIET_SECONDS)
    assert _versions(idle[0]) == before
    for service in (services[0], idle[0]):
        written = service.writes()
        assert written, "the audit log shows no write at all: it is not being read rightly"
        late = [event for event in written if event.at > since and not _keeps_books(event)]
        assert [str(event) for event in late] == []


def _versions(service: Endpoint) -> dict[str, str]:
    """The resource versions of all in its namespace that is ours, by kind and name."""
    return {
        f"{kind}/{found['metadata']['name']}": found["metadata"]["resourceVersion"]
        for kind in KINDS
        for found in service.cluster.objects(kind, service.namespace)
    }


def _keeps_books(event: audit.Event) -> bool:
    """KEDA's and the HPA controller's own notes, which they may take whenever they like."""
    kind = f"{event.resource}/{event.subresource}"
    return kind == "scaledobjects/status" or event.resource == "horizontalpodautoscalers"
