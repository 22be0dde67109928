"""Fixtures of the scenarios: Noctaya installed, KEDA beside it, services in namespaces."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import cluster as running
from tests.cluster import errors, layout, noctaya, registry
from tests.cluster.conftest import unfit
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.endpoint import Endpoint
from tests.cluster.scenarios.troubles import Troubles
from tests.cluster.scenarios.volumes import Volumes
from tests.process.fetcher import localhub

Start = Callable[..., Endpoint]


@pytest.fixture(scope="session")
def installed(cluster: running.Cluster, testrun_uid: str) -> running.Cluster:
    """Noctaya, Metacontroller and KEDA, each under its shipped account.

    Workers share them. They are left running: most often the rig goes with the session.
    """
    with cluster.once(f"install-{testrun_uid}") as first:
        if first:
            cluster.keda_install()
            noctaya.install(cluster)
            noctaya.start_metacontroller(cluster)
            cluster.apply(
                builders.runtime("echo-quick"),
                builders.runtime("echo-slow", load_seconds=4),
                builders.runtime("echo-drains", drains=True),
                builders.runtime("echo-steady", tokens_per_second=10, drains=True, metrics=True),
            )
    return cluster


@pytest.fixture(scope="module")
def troubles(installed: running.Cluster) -> Iterator[Troubles]:
    made = Troubles(installed)
    yield made
    made.end()


@pytest.fixture(scope="module")
def volumes(installed: running.Cluster) -> Iterator[Volumes]:
    made = Volumes(installed)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def open_hub(installed: running.Cluster) -> Iterator[localhub.LocalHub]:
    """A fake of both hubs, beside the node, whose two models anybody may have."""
    with installed.inside():
        made = localhub.LocalHub(layout.NODE_ADDRESS)
    for name in ("small", "large"):
        files = {"config.json": b"{}", "weights.bin": os.urandom(2**20)}
        made.repos[f"noctaya/{name}"] = localhub.Repo(files=files)
    with made:
        yield made


@pytest.fixture(scope="session")
def served(installed: running.Cluster) -> Iterator[registry.Served]:
    """A registry beside the node, whose model is 1 MiB of weights."""
    try:
        with registry.serving(installed.instance, {"weights.bin": os.urandom(2**20)}) as made:
            yield made
    except errors.MachineUnfit as e:
        unfit(e)


@pytest.fixture(scope="session")
def start(installed: running.Cluster) -> Iterator[Start]:
    """Start services: each gets a namespace of its own, so that no two share an audit trail.

    Takes what `builders.service` takes after the namespace, an ``overlay`` for the rest of the
    object, and objects that are to be in the namespace ``beside`` it from the start. The
    namespaces go at the end of the session, without waiting: most often the rig goes with them.
    """
    namespaces = []

    def begin(
        name: str,
        runtime: str = "echo-quick",
        *,
        overlay: builders.Object | None = None,
        beside: tuple[builders.Object, ...] = (),
        **spec: object,
    ) -> Endpoint:
        # A rig that was kept may still be busy with the namespaces of an earlier run.
        namespace = f"{name}-{os.urandom(2).hex()}"
        namespaces.append(namespace)
        installed.kubectl("create", "namespace", namespace)
        for neighbour in beside:
            installed.apply(builders.merged(neighbour, {"metadata": {"namespace": namespace}}))
        service = builders.service(namespace, name, runtime, **spec)  # type: ignore[arg-type]
        installed.apply(builders.merged(service, overlay or {}))
        return Endpoint(installed, namespace, name)

    yield begin
    if namespaces:
        installed.kubectl("delete", "namespace", *namespaces, "--wait=false")
