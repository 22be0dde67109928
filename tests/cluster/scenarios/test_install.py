"""The install as its administrator meets it: rights, TLS, and an uninstall in the wrong order."""

import os
import pathlib
import shlex
import sys
from collections.abc import Iterator

import pytest

from tests.cluster import certificates, layout, noctaya
from tests.cluster import cluster as running
from tests.cluster.scenarios.conftest import Start

pytestmark = pytest.mark.alone

TLS, AUTHORIZATION = "noctaya-hooks-tls", "noctaya-hooks-authorization"
HOST = f"noctaya-hooks.{noctaya.NAMESPACE}.svc"
TOKEN = os.urandom(16).hex()

# What a client with the right authority gets: URL, token and the authority's file in, status out.
CLIENT = """
import ssl, sys, urllib.error, urllib.request
url, token, authority = sys.argv[1:]
asked = urllib.request.Request(url, data=b"{}", headers={"Authorization": f"Bearer {token}"})
try:
    urllib.request.urlopen(asked, timeout=10, context=ssl.create_default_context(cafile=authority))
except urllib.error.HTTPError as e:
    print(e.code)
"""


def test_metacontroller_is_never_refused_what_it_asks_for(
    installed: running.Cluster, start: Start
) -> None:
    """The other half, that it holds no right that it does not need, is derived in tests/pure."""
    since = installed.audit.mark()
    service = start("rights")
    service.wait_armed()
    assert service.ask("Hello").finished
    installed.kubectl("delete", "llmservice", "rights", f"-n={service.namespace}")
    asked = installed.audit.events(since=since, user=noctaya.METACONTROLLER)
    assert asked, "the audit log shows nothing of Metacontroller: it is not being read rightly"
    assert [str(event) for event in asked if event.code == 403] == []


@pytest.fixture
def authority(tmp_path: pathlib.Path) -> certificates.Authority:
    """One of its own for the hooks, which have a certificate in its folder."""
    made = certificates.Authority(tmp_path / "pki")
    made.create()
    made.issue("hooks", "/CN=noctaya-hooks", f"DNS:{HOST}")
    return made


@pytest.fixture
def with_tls(
    installed: running.Cluster, authority: certificates.Authority, tmp_path: pathlib.Path
) -> Iterator[running.Cluster]:
    """The install with the component `tls`, and the plain one again afterwards."""
    folder = authority.folder
    files = {"tls.crt": "hooks.crt", "tls.key": "hooks.key", "ca.crt": "ca.crt"}
    sources = [f"--from-file={key}={folder / file}" for key, file in files.items()]
    namespace = f"-n={noctaya.NAMESPACE}"
    installed.kubectl("create", "secret", "generic", TLS, namespace, *sources)
    installed.kubectl(
        "create", "secret", "generic", AUTHORIZATION, namespace, f"--from-literal=token={TOKEN}"
    )
    manifests = os.path.relpath(layout.REPOSITORY / "manifests", tmp_path)
    overlay = f"resources: [{manifests}]\ncomponents: [{manifests}/components/tls]\n"
    (tmp_path / "kustomization.yaml").write_text(overlay)
    try:
        installed.apply(tmp_path)
        _wait_for_hooks(installed)
        yield installed
    finally:
        installed.apply(layout.REPOSITORY / "manifests")
        _wait_for_hooks(installed)
        installed.kubectl("delete", "secret", TLS, AUTHORIZATION, namespace)
        for kind in ("clusterrolebinding", "clusterrole"):
            installed.kubectl("delete", kind, "noctaya-metacontroller-credentials")


def test_with_tls_and_a_token_a_service_is_synced_and_strangers_are_not(
    with_tls: running.Cluster, authority: certificates.Authority, start: Start
) -> None:
    start("secured").wait_asleep()
    url, trusted = f"https://{HOST}/llmservice/sync", str(authority.folder / "ca.crt")
    for token, status in ((TOKEN, "400"), ("another", "401")):
        done = with_tls.run(sys.executable, "-c", CLIENT, url, token, trusted)
        assert done.stdout.split() == [status]


@pytest.fixture
def without_operator(installed: running.Cluster) -> Iterator[running.Cluster]:
    """For tests that stop KEDA: it runs again afterwards."""
    yield installed
    installed.keda_start()


def test_a_scaled_object_that_outlives_keda_is_repaired_as_documented(
    without_operator: running.Cluster, start: Start
) -> None:
    service = start("orphan")
    service.wait_asleep()
    without_operator.keda_stop()
    without_operator.kubectl("delete", "llmservice", "orphan", f"-n={service.namespace}")

    def left() -> list[str]:
        kinds = "llmservice,deployment,service,serviceaccount,rolebinding,scaledobject,hpa"
        listed = without_operator.kubectl("get", kinds, "-o=name", f"-n={service.namespace}")
        return sorted(set(listed.split()) - {"serviceaccount/default"})

    # KEDA's object, and what is KEDA's own and goes with it.
    held = ["horizontalpodautoscaler.autoscaling/keda-hpa-orphan", "scaledobject.keda.sh/orphan"]
    without_operator.wait("all but KEDA's object is gone", lambda: left() == held)
    assert service.scaled_object()["metadata"]["deletionTimestamp"]

    without_operator.kubectl(*_documented_repair("orphan", service.namespace))
    without_operator.wait("nothing is left", lambda: not left())


def _documented_repair(name: str, namespace: str) -> list[str]:
    """The arguments of the one `kubectl patch scaledobject` in the docs."""
    lines = (layout.REPOSITORY / "docs" / "install.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("$ kubectl patch scaledobject"))
    words = {"NAME": name, "NAMESPACE": namespace}
    return [words.get(word, word) for word in shlex.split(line)[2:]]


def _wait_for_hooks(cluster: running.Cluster) -> None:
    cluster.kubectl(
        "rollout",
        "status",
        "deployment/noctaya-hooks",
        f"-n={noctaya.NAMESPACE}",
        "--timeout=120s",
    )
