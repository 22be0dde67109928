"""Metacontroller and the hooks with very many services: ``python -m bench.many``.

A real API server and the Metacontroller that the environment variable METACONTROLLER names (the
tests' stand-in would say nothing about it), without kubelet and controllers: what costs here is the
watching and asking. Gateways are said to be available by the bench; Pods are objects whose status
it changes, as a cluster with busy engines would.
"""

import argparse
import dataclasses
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kubernetes
import yaml

from tests.cluster import build, errors, layout, programs, rig
from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.process.hooks import serving

Object = dict[str, Any]

NAMESPACES = 10
HOOKS = "127.0.0.1:18080"
# They would make Pods for every service, on a node that has no room for them.
NOT_NEEDED = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns")
MEASURED = ("metacontroller", "hooks", "kube-apiserver")
# Settled: a share of one core that is no more than health checks and resyncs.
QUIET_CORE, QUIET_SECONDS = 0.05, 4.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Used:
    """What one phase took: wall-clock and CPU seconds, and MiB resident at its end."""

    seconds: float
    cpu: dict[str, float]
    resident: dict[str, float]


class Bench:
    """The parts that run, and what they have used so far."""

    def __init__(self, cluster: running.Cluster, services: int, flags: list[str]) -> None:
        self.cluster = cluster
        self.names = [(f"many-{n % NAMESPACES}", f"service-{n}") for n in range(services)]
        self._flags = flags
        self._core: Any = kubernetes.client.CoreV1Api(cluster.api)
        self._apps: Any = kubernetes.client.AppsV1Api(cluster.api)
        self._custom: Any = kubernetes.client.CustomObjectsApi(cluster.api)

    def install(self) -> None:
        """Kinds, rights, controllers that call hooks on loopback, and both programs."""
        self.cluster.apply(*_kinds())
        # Too large for the annotation of a client-side apply.
        self.cluster.apply(build.data("keda") / "crd" / "bases", server_side=True)
        self.cluster.apply(layout.REPOSITORY / "metacontroller" / "rbac.yaml")
        for name in sorted({namespace for namespace, _ in self.names}):
            self.cluster.kubectl("create", "namespace", name)
        self.cluster.apply(builders.runtime("echo"))
        self.start_hooks()
        self.cluster.apply(*_controllers())
        self.start_metacontroller()

    def start_hooks(self) -> None:
        programs.start(
            self.cluster.instance,
            "hooks",
            [
                *(sys.executable, "-m", "gunicorn", f"--bind={HOOKS}"),
                *(*serving.options(), "hooks.app:create_app()"),
            ],
            env={"NOCTAYA_GATEWAY_IMAGE": "gateway", "NOCTAYA_FETCHER_IMAGE": "fetcher"},
            cwd=layout.REPOSITORY,
        )

    def start_metacontroller(self) -> None:
        program = os.environ["METACONTROLLER"]
        self.cluster.run_as_service_account(
            "metacontroller",
            [program, *self._flags, "--kubeconfig={kubeconfig}", "--metrics-address=0"],
            account="metacontroller",
            namespace="metacontroller",
        )

    def create_services(self) -> None:
        def create(name: tuple[str, str]) -> None:
            service = builders.service(*name, "echo", idle_seconds=60)
            group, _, version = builders.API_VERSION.partition("/")
            self._custom.create_namespaced_custom_object(
                group, version, name[0], "llmservices", service
            )

        self._all(create)
        self._until_settled(lambda: self._count("services") >= 3 * len(self.names))

    def make_gateways_available(self) -> None:
        """Which is when KEDA's objects are made."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        available = {"type": "Available", "status": "True", "lastTransitionTime": stamp}
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), 1)
        status = {"status": {**counts, "conditions": [available]}}

        def patch(name: tuple[str, str]) -> None:
            self._apps.patch_namespaced_deployment_status(f"{name[1]}-gateway", name[0], status)

        self._all(patch)
        self._until_settled(lambda: self._count("scaledobjects") >= len(self.names))

    def create_pods(self) -> None:
        container = {"name": "engine", "image": "echo"}

        def create(name: tuple[str, str]) -> None:
            labels = {
                "serving.noctaya.io/service": name[1],
                "app.kubernetes.io/component": "backend",
            }
            metadata = {"name": f"{name[1]}-backend-0", "labels": labels}
            # One that exists: the namespace's own is made by a controller that does not run.
            spec = {"containers": [container], "serviceAccountName": f"{name[1]}-gateway"}
            self._core.create_namespaced_pod(name[0], {"metadata": metadata, "spec": spec})

        self._all(create)
        self._until_settled(lambda: True)

    def churn(self, seconds: float, per_second: float) -> int:
        """Changes the status of one Pod after the other; how many were changed."""
        chosen = random.Random(0)
        began = time.monotonic()
        for number in itertools.count():
            due = began + number / per_second
            if due > began + seconds:
                return number
            time.sleep(max(0.0, due - time.monotonic()))
            namespace, service = chosen.choice(self.names)
            ready = {"type": "Ready", "status": "False", "message": f"change {number}"}
            self._core.patch_namespaced_pod_status(
                f"{service}-backend-0", namespace, {"status": {"conditions": [ready]}}
            )
        raise AssertionError("counting ends never")

    def edit_runtime(self) -> None:
        """A change that every service has to look at, and that changes nothing for any."""
        edited = builders.runtime("echo")
        edited["spec"]["priority"] = 7
        self.cluster.apply(edited)
        self._until_settled(lambda: True)

    def restart_metacontroller(self) -> None:
        self.cluster.program("metacontroller").stop()
        self.start_metacontroller()
        time.sleep(QUIET_SECONDS)
        self._until_settled(lambda: True)

    def used_by(self, phase: Callable[[], object]) -> Used:
        before, began = self._cpu(), time.monotonic()
        phase()
        return Used(
            seconds=time.monotonic() - began,
            cpu={
                # One that was started again begins at nothing.
                name: cpu - (before[name][1] if before[name][0] == pids else 0.0)
                for name, (pids, cpu) in self._cpu().items()
            },
            resident={name: _resident(self._pids(name)) for name in MEASURED},
        )

    def _all(self, act: Callable[[tuple[str, str]], None]) -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(act, self.names))

    def _count(self, kind: str) -> int:
        listed = self.cluster.kubectl("get", kind, "--all-namespaces", "--output=name")
        return len(listed.splitlines())

    def _until_settled(self, reached: Callable[[], bool]) -> None:
        self.cluster.wait("what is expected is there", reached, seconds=1800)
        while True:
            before = self._asking()
            time.sleep(QUIET_SECONDS)
            if self._asking() - before < QUIET_CORE * QUIET_SECONDS:
                return

    def _asking(self) -> float:
        """CPU seconds of those who ask and answer; an API server is never quite still."""
        return sum(_cpu_seconds(self._pids(name)) for name in ("metacontroller", "hooks"))

    def _cpu(self) -> dict[str, tuple[list[int], float]]:
        """Processes and their CPU seconds so far."""
        pids = {name: self._pids(name) for name in MEASURED}
        return {name: (found, _cpu_seconds(found)) for name, found in pids.items()}

    def _pids(self, name: str) -> list[int]:
        found = programs.find(self.cluster.instance, name)
        if found is None or not found.alive():
            return []
        pid = found.body.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.many", description=__doc__)
    parser.add_argument("--services", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--churn-seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--churn-rate", type=float, default=20.0, help="Pods a second")
    parser.add_argument("flags", nargs="*", help="of Metacontroller, after --")
    chosen = parser.parse_args()
    if "METACONTROLLER" not in os.environ:
        sys.exit("set METACONTROLLER to the program: its stand-in costs something else")
    instance = layout.instance("many")
    try:
        rig.up(instance, print, leashed=True)
        cluster = running.Cluster(instance)
        for name in NOT_NEEDED:
            if programs.find(instance, name) is not None:
                cluster.program(name).stop()
        bench = Bench(cluster, chosen.services, chosen.flags)
        bench.install()
        for line in _report(bench, chosen.churn_seconds, chosen.churn_rate):
            print(line, flush=True)
    except errors.RigError as e:
        sys.exit(str(e))
    finally:
        rig.down(instance)


def _report(bench: Bench, churn_seconds: float, churn_rate: float) -> Iterator[str]:
    yield f"{len(bench.names)} services; CPU in seconds, MiB resident at the end of each phase"
    heads = "".join(f"{name:>24}" for name in MEASURED)
    yield f"{'':34}{'wall s':>8}{heads}"
    yield _line("created", bench.used_by(bench.create_services))
    yield _line("gateways available, KEDA's made", bench.used_by(bench.make_gateways_available))
    yield _line("a Pod for each", bench.used_by(bench.create_pods))
    yield _line("a quiet minute", bench.used_by(lambda: time.sleep(60)))
    used = bench.used_by(lambda: bench.churn(churn_seconds, churn_rate))
    yield _line(f"{churn_rate:g} Pods change each second", used)
    changes = churn_seconds * churn_rate
    yield (
        ", ".join(f"{name} {used.cpu[name] / changes * 1000:.1f} ms" for name in MEASURED)
        + " of CPU for each change"
    )
    yield _line("a runtime that all use changes", bench.used_by(bench.edit_runtime))
    yield _line("Metacontroller restarted", bench.used_by(bench.restart_metacontroller))


def _line(phase: str, used: Used) -> str:
    columns = "".join(
        f"{used.cpu[name]:>12.1f} s {used.resident[name]:>6.0f} MiB" for name in MEASURED
    )
    return f"  {phase:32}{used.seconds:>8.1f}{columns}"


def _kinds() -> Iterator[Path]:
    yield layout.REPOSITORY / "crds"
    yield layout.REPOSITORY / "tests" / "cluster" / "standin" / "crds.yaml"
    yield layout.REPOSITORY / "tests" / "cluster" / "standin" / "account.yaml"


def _controllers() -> Iterator[Object]:
    for path in sorted((layout.REPOSITORY / "metacontroller").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if str(document.get("kind", "")).endswith("Controller"):
                text = json.dumps(document)
                yield json.loads(text.replace("noctaya-hooks.noctaya-system.svc", HOOKS))


def _cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident(pids: list[int]) -> float:
    statuses = (Path(f"/proc/{pid}/status").read_text() for pid in pids)
    return sum(int(status.partition("VmRSS:")[2].split()[0]) for status in statuses) / 1024


if __name__ == "__main__":
    main()
