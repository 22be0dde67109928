"""The ``cluster`` fixture: one rig for the whole test session."""

import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import errors, layout, rig

_REQUIRED = "NOCTAYA_REQUIRE_CLUSTER"


def unfit(reason: errors.MachineUnfit) -> None:
    """Skip with the reason; where CI requires the cluster, fail with it."""
    if os.environ.get(_REQUIRED) == "1":
        pytest.fail(f"{reason} ({_REQUIRED}=1 forbids skipping)", pytrace=False)
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def fit() -> None:
    """For tests that start rigs of their own: this machine can, and everything is built."""
    try:
        rig.prepare(_say)
    except errors.MachineUnfit as e:
        unfit(e)


@pytest.fixture(scope="session")
def cluster() -> Iterator[running.Cluster]:
    """A running cluster with the project's images on its node.

    One that was started by hand is used and left running; else one is started, and ends with
    this process, however it ends.
    """
    instance = layout.instance()
    try:
        by_hand = rig.running(instance)
        rig.up(instance, _say, leashed=True)
    except errors.MachineUnfit as e:
        unfit(e)
        raise
    rig.load_own_images(instance, _say)
    yield running.Cluster(instance)
    if not by_hand:
        rig.down(instance)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """A failed test shows what the cluster looked like when it failed."""
    report: pytest.TestReport = yield  # type: ignore[misc,assignment]
    held = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(held, running.Cluster):
        already = call.excinfo is not None and call.excinfo.errisinstance(running.NotInTime)
        if not already:
            report.sections.append(("cluster", held.diagnosis()))
    return report  # type: ignore[return-value]


def _say(line: str) -> None:
    print(line, flush=True)
