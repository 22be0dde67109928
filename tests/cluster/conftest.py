"""The ``cluster`` fixture: one rig for the whole test session, also one of several workers.

Tests marked ``alone`` disturb what all the others share (KEDA, Metacontroller, the node, the
machine). They are not for workers.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import cluster as running
from tests.cluster import errors, layout, rig

_REQUIRED = "NOCTAYA_REQUIRE_CLUSTER"

# What a worker is told of the shared rig: why there is none, or nothing.
_SHARED = "noctaya_rig"
_UNFIT = pytest.StashKey[str]()


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
def cluster(request: pytest.FixtureRequest) -> Iterator[running.Cluster]:
    """A running cluster with the project's images on its node.

    One that was started by hand is used and left running; else one is started, and ends with
    this process, however it ends. Workers share the one of the process that started them.
    """
    shared: str | None = getattr(request.config, "workerinput", {}).get(_SHARED)
    if shared is not None:
        if shared:
            unfit(errors.MachineUnfit(shared))
        yield running.Cluster(layout.instance())
        return
    try:
        with _started() as instance:
            yield running.Cluster(instance)
    except errors.MachineUnfit as e:
        unfit(e)


@contextlib.contextmanager
def _started() -> Iterator[layout.Instance]:
    instance = layout.instance()
    by_hand = rig.running(instance)
    rig.up(instance, _say, leashed=True)
    rig.load_own_images(instance, _say)
    yield instance
    if not by_hand:
        rig.down(instance)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before pytest-xdist starts a worker: the rig is this process's, and outlives them all."""
    config: pytest.Config = node.config
    if _UNFIT not in config.stash:
        shared = contextlib.ExitStack()
        try:
            shared.enter_context(_started())
            config.stash[_UNFIT] = ""
            config.add_cleanup(shared.close)
        except errors.MachineUnfit as e:
            config.stash[_UNFIT] = str(e)
    node.workerinput[_SHARED] = config.stash[_UNFIT]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("alone") and hasattr(item.config, "workerinput"):
        pytest.fail(
            "this test disturbs what workers share: leave it out with -m 'not alone', "
            "and run -m alone without -n",
            pytrace=False,
        )


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
