"""Cold starts on the one-node cluster, split: ``python -m bench.coldstart_cluster``.

The whole product, KEDA included, wakes one echo service at a time. Between two of them an empty Pod
is started, which is the least that Kubernetes asks of anybody: what a cold start costs beyond it is
ours. Needs what the cluster tests need, and starts a rig of its own.
"""

import argparse
import itertools
import sys
import time
from typing import Any

import kubernetes

from bench import split
from tests.cluster import cluster as running
from tests.cluster import errors, layout, noctaya, rig
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.endpoint import Endpoint

NAMESPACE = "coldstart"
# While one is woken the others go back to sleep, which takes one or two of KEDA's polls.
SERVICES = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.coldstart_cluster", description=__doc__)
    parser.add_argument("--count", type=int, default=24, metavar="N", help="default: %(default)s")
    count = parser.parse_args().count
    instance = layout.instance("bench")
    try:
        rig.up(instance, print, leashed=True)
        rig.load_own_images(instance, print)
        own, empty = _measure(running.Cluster(instance), count)
    except errors.RigError as e:
        sys.exit(str(e))
    finally:
        rig.down(instance)
    print(f"{len(own)} cold starts on the cluster, in milliseconds\n{'':33}  p50       p95")
    print("\n".join(split.table(own)))
    print(f"{len(empty)} empty Pods in the same run")
    print(f"  {'created -> Ready':30} {split.quantiles(empty)}")
    whole = split.quantiles([start.between("accepted", "first byte") for start in own])
    alone = split.quantiles(empty)
    print(f"a cold start takes {whole.p50 / alone.p50:.2f} times as long as an empty Pod")


def _measure(cluster: running.Cluster, count: int) -> tuple[list[split.ColdStart], list[float]]:
    endpoints = _install(cluster)
    own, empty = [], []
    for number, endpoint in zip(range(count), itertools.cycle(endpoints), strict=False):
        endpoint.wait_armed()
        own.append(_cold_start(cluster, endpoint))
        empty.append(_empty_pod(cluster, f"empty-{number}"))
    return own, empty


def _install(cluster: running.Cluster) -> list[Endpoint]:
    cluster.keda_install()
    noctaya.install(cluster)
    noctaya.start_metacontroller(cluster)
    cluster.apply(builders.runtime("echo"))
    cluster.kubectl("create", "namespace", NAMESPACE)
    names = [f"echo-{number}" for number in range(SERVICES)]
    cluster.apply(*(builders.service(NAMESPACE, name, "echo", idle_seconds=0) for name in names))
    return [Endpoint(cluster, NAMESPACE, name) for name in names]


def _cold_start(cluster: running.Cluster, endpoint: Endpoint) -> split.ColdStart:
    answer = endpoint.ask()
    assert answer.finished, answer
    [pod] = [pod["metadata"]["name"] for pod in endpoint.pods()]
    engine = cluster.kubectl("logs", pod, f"--namespace={NAMESPACE}")
    gateway = cluster.kubectl(
        "logs", f"deployment/{endpoint.name}-gateway", f"--namespace={NAMESPACE}"
    )
    return split.cold_start(split.requests(gateway)[-1], engine)


def _empty_pod(cluster: running.Cluster, name: str) -> float:
    """Seconds from its creation to the moment that a watch says Ready."""
    core: Any = kubernetes.client.CoreV1Api(cluster.api)
    container = {"name": "empty", "image": layout.BUSYBOX_IMAGE, "command": ["sleep", "600"]}
    pod = {
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    began = time.monotonic()
    core.create_namespaced_pod(NAMESPACE, pod)
    watch: Any = kubernetes.watch.Watch()  # type: ignore[no-untyped-call]
    for event in watch.stream(
        core.list_namespaced_pod,
        NAMESPACE,
        field_selector=f"metadata.name={name}",
        timeout_seconds=60,
    ):
        conditions = event["object"].status.conditions or []
        if any(c.type == "Ready" and c.status == "True" for c in conditions):
            watch.stop()
            took = time.monotonic() - began
            core.delete_namespaced_pod(name, NAMESPACE)
            return took
    raise SystemExit(f"Pod {name} was not ready within 60 s")


if __name__ == "__main__":
    main()
