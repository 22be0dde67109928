"""What the ``cluster`` fixture gives: a real cluster, and the ways into it."""

import os
import pathlib
from collections.abc import Iterator

import kubernetes
import pytest

from tests.cluster import audit, images, layout, node
from tests.cluster import cluster as running

pytestmark = pytest.mark.alone

_WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                # As process 1 of its container it does not hear SIGTERM.
                "terminationGracePeriodSeconds": 0,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "web",
                        "image": layout.BUSYBOX_IMAGE,
                        "command": ["sh", "-c"],
                        "args": ["echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"],
                        "readinessProbe": {
                            "httpGet": {"port": 8080, "path": "/"},
                            "periodSeconds": 1,
                        },
                    }
                ],
            },
        },
    },
}
_WEB_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


def in_namespace(namespace: str, item: running.Object) -> running.Object:
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


@pytest.fixture(scope="module")
def web(cluster: running.Cluster) -> Iterator[str]:
    """A namespace with one web server behind the Service ``web``."""
    with cluster.namespace("rig-web") as namespace:
        cluster.apply(*(in_namespace(namespace, item) for item in (_WEB, _WEB_SERVICE)))
        with cluster.session() as http:
            # kube-proxy follows a Pod's readiness by up to a second.
            cluster.wait("the web server answers", lambda: http.get(f"http://web.{namespace}/").ok)
        yield namespace


def test_a_service_is_reached_from_the_tests_own_process(
    cluster: running.Cluster, web: str
) -> None:
    with cluster.session() as http:
        assert http.get(f"http://web.{web}/", timeout=5).text == "hello\n"


def test_a_thread_can_enter_the_network_and_come_back(cluster: running.Cluster, web: str) -> None:
    before = os.stat("/proc/thread-self/ns/net").st_ino
    with cluster.inside():
        assert os.stat("/proc/thread-self/ns/net").st_ino != before
    assert os.stat("/proc/thread-self/ns/net").st_ino == before


def test_a_pod_resolves_a_service_name(cluster: running.Cluster, web: str) -> None:
    answer = cluster.kubectl(
        "exec", f"-n={web}", "deploy/web", "--", "nslookup", f"web.{web}.svc.cluster.local"
    )
    assert cluster.address(f"web.{web}") in answer


def test_a_program_of_the_rig_resolves_a_service_name(cluster: running.Cluster, web: str) -> None:
    answer = cluster.run("getent", "hosts", f"web.{web}.svc").stdout
    assert answer.startswith(cluster.address(f"web.{web}"))


def test_the_python_client_reads_and_writes(cluster: running.Cluster, web: str) -> None:
    apps = kubernetes.client.AppsV1Api(cluster.api)
    apps.patch_namespaced_deployment("web", web, {"metadata": {"labels": {"seen": "yes"}}})
    listed = apps.list_namespaced_deployment(web, label_selector="seen=yes")
    assert len(listed.items) == 1


def test_the_audit_log_tells_who_wrote_what(cluster: running.Cluster, web: str) -> None:
    before = cluster.audit.mark()
    cluster.kubectl("scale", f"-n={web}", "deploy/web", "--replicas=1")
    cluster.kubectl("annotate", f"-n={web}", "deploy/web", "a=b")
    [event] = cluster.audit.writes(
        since=before, resource="deployments", subresource="", user="admin"
    )
    assert (event.verb, event.namespace, event.name, event.code) == ("patch", web, "web", 200)
    assert event.request == {"metadata": {"annotations": {"a": "b"}}}


def test_a_program_under_an_account_has_that_accounts_rights(
    cluster: running.Cluster, web: str
) -> None:
    before = cluster.audit.mark()
    program = cluster.run_as_service_account(
        "rightless",
        [layout.STATE / "bin" / "kubectl", "--kubeconfig={kubeconfig}", "get", "pods", f"-n={web}"],
        account="default",
        namespace=web,
    )
    cluster.wait("the program ended", lambda: not program.alive(), seconds=10)
    assert "forbidden" in program.last_words()
    user = audit.service_account(web, "default")
    # Before it asks, kubectl may look up what there is, as its cache on disk has it.
    asked = cluster.audit.events(since=before, user=user)
    assert {event.code for event in asked if event.resource == "pods"} == {403}


def test_the_scheduler_counts_accelerators(cluster: running.Cluster) -> None:
    cluster.accelerators("nvidia.com/gpu", 2)
    with cluster.namespace("rig-devices") as namespace:
        for number in range(3):
            container = {
                "name": "c",
                "image": layout.BUSYBOX_IMAGE,
                "command": ["sleep", "600"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
            pod: running.Object = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"pod-{number}", "namespace": namespace},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            }
            cluster.apply(pod)

        def phases() -> list[str]:
            return sorted(p["status"]["phase"] for p in cluster.objects("pods", namespace))

        cluster.wait("two Pods run", lambda: phases() == ["Pending", "Running", "Running"])
    cluster.accelerators("nvidia.com/gpu", 0)


def test_the_projects_own_images_are_on_the_node(cluster: running.Cluster) -> None:
    names = cluster.run("ctr", f"--address={node.SOCKET}", "-n=k8s.io", "images", "ls", "-q").stdout
    assert {image.reference for image in images.OWN} <= set(names.split())


def test_a_frozen_program_stands_still_and_goes_on(cluster: running.Cluster) -> None:
    scheduler = cluster.program("kube-scheduler")
    scheduler.freeze()
    stat = pathlib.Path(f"/proc/{scheduler.body.pid}/stat")

    def stands_still() -> bool:
        return stat.read_text().rpartition(")")[2].split()[0] == "T"

    # A signal is sent at once, and obeyed when its turn comes.
    cluster.wait("the scheduler stands still", stands_still)
    scheduler.thaw()
    cluster.wait("the scheduler goes on", lambda: not stands_still())
