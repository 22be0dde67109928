"""What the sync hooks cost: ``python -m bench.sync``.

A service with everything (two gateways, mTLS, a key, a staged cache, four Pods, five runtimes to
choose from) is asked about over HTTP, one request after the other, in turns with a peer that is
Flask, gunicorn and pydantic alone. Both run with the options of the hooks' image. Objects carry
managedFields of the size that API servers send.
"""

import dataclasses
import functools
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report, split
from bench.processes import free_port
from bench.report import Section, Target
from hooks import questions
from tests.process.hooks import serving
from tests.pure.hooks import scenes
from tests.pure.hooks.world import NOON, SETTINGS, World, merged, stamp

Obj = dict[str, Any]
Row = tuple[str, ...]

RUNTIMES, PODS = 5, 4

# Requests in a row to one of the two, as Metacontroller sends them after a change that concerns
# many services. With every second one to the other, each finds the caches of the processor filled
# by its peer, which no part of a cluster does to the hooks.
TURN = 20

SYNC_P50_MS, SYNC_P95_MS, CUSTOMIZE_P50_MS = 3.0, 8.0, 1.0
RESYNC_SERVICES, RESYNC_CPU_SECONDS = 1000, 10.0
RESIDENT_RATIO = 1.3
HASH_SEEDS = ("0", "1", "2", "random")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A hook and what it is asked."""

    path: str
    body: bytes


class Server:
    """gunicorn with one worker, and a connection to it that is kept."""

    def __init__(self, application: str, folder: Path) -> None:
        self._port = free_port()
        self.log = folder / f"{application.partition('.')[0]}.log"
        command = [sys.executable, "-m", "gunicorn", f"--bind=127.0.0.1:{self._port}"]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *serving.options(), application],
                env={
                    **os.environ,
                    "NOCTAYA_GATEWAY_IMAGE": "gateway",
                    "NOCTAYA_FETCHER_IMAGE": "f",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        serving.wait_until_ready(f"http://127.0.0.1:{self._port}", self._process, self.log)
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)

    def ask(self, question: Question) -> float:
        """Seconds from the request's first byte to the answer's last."""
        began = perf_counter()
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", question.path, question.body, headers)
        answer = self._connection.getresponse()
        told = answer.read()
        took = perf_counter() - began
        assert answer.status == 200, told
        return took

    def cpu_seconds(self) -> float:
        """Of all its processes so far."""
        return (
            sum(
                int((task / "schedstat").read_text().split()[0])
                for pid in self._pids()
                for task in Path(f"/proc/{pid}/task").iterdir()
            )
            / 1e9
        )

    def resident_mib(self) -> float:
        """Of the worker; what gunicorn's arbiter holds is the same for everybody."""
        status = Path(f"/proc/{self._pids()[-1]}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def end(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()

    def _pids(self) -> list[int]:
        parent = self._process.pid
        workers = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [parent, *map(int, workers)]


def main() -> int:
    parser = report.flags("sync", __doc__)
    parser.add_argument(
        "--rounds", type=int, default=1000, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--digest", action="store_true", help="print a hash of all answers, no more"
    )
    chosen = parser.parse_args()
    if chosen.digest:
        print(_digest())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ours = Server("hooks.app:create_app()", Path(folder))
        bare = Server("bench.bareapp:create_app()", Path(folder))
        try:
            table, targets = _latency(ours, bare, chosen.rounds)
            targets += _resync(ours, bare)
        finally:
            ours.end()
            bare.end()
    return report.publish(
        Section(
            name="sync",
            title="The hooks: what Metacontroller waits for",
            how=f"A service with two gateways, mutual TLS, a key, a staged cache, {PODS} Pods and"
            f" {RUNTIMES} runtimes to choose from, asked about over HTTP; one worker with the"
            f" image's options. {chosen.rounds} requests, {TURN} in turn with {TURN} to a peer that"
            " parses, validates and echoes with Flask, gunicorn and pydantic alone. Milliseconds.",
            table=table,
            targets=[*targets, _same_bytes()],
        ),
        write=chosen.write,
    )


def _latency(ours: Server, bare: Server, rounds: int) -> tuple[list[Row], list[Target]]:
    table: list[Row] = [("hook", "kB asked", "p50", "p95", "bare p50", "bare p95", "ratio of p50")]
    targets = []
    for question in _questions("ns"):
        for server in (ours, bare):
            for _ in range(20):
                server.ask(question)
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds // TURN):
            for server, column in zip((ours, bare), took, strict=True):
                column += [server.ask(question) for _ in range(TURN)]
        own, peer = map(split.quantiles, took)
        figures = (own.p50, own.p95, peer.p50, peer.p95, own.p50 / peer.p50)
        size = str(len(question.body) // 1000)
        table.append((question.path, size, *(f"{figure:.2f}" for figure in figures)))
        if question.path.endswith("/sync"):
            targets.append(_milliseconds(f"{question.path}, p50", own.p50, SYNC_P50_MS))
            targets.append(_milliseconds(f"{question.path}, p95", own.p95, SYNC_P95_MS))
        else:
            targets.append(_milliseconds(f"{question.path}, p50", own.p50, CUSTOMIZE_P50_MS))
    return table, targets


def _milliseconds(what: str, measured: float, at_most: float) -> Target:
    return Target(what=what, measured=measured, at_most=at_most, unit=" ms")


def _resync(ours: Server, bare: Server) -> list[Target]:
    """Every hook once for each of many services, as after a change of a runtime that all use."""
    cpu = {}
    services = [_questions(f"ns-{number}") for number in range(RESYNC_SERVICES)]
    for name, server in (("ours", ours), ("bare", bare)):
        before = server.cpu_seconds()
        for questions_of_one in services:
            for question in questions_of_one:
                server.ask(question)
        cpu[name] = server.cpu_seconds() - before
    return [
        Target(
            what=f"CPU for {RESYNC_SERVICES} services resynced (bare: {cpu['bare']:.1f} s)",
            measured=cpu["ours"],
            at_most=RESYNC_CPU_SECONDS,
            unit=" s",
        ),
        Target(
            what=f"resident memory afterwards, {ours.resident_mib():.0f} MiB, over that of bare",
            measured=ours.resident_mib() / bare.resident_mib(),
            at_most=RESIDENT_RATIO,
            unit="x",
        ),
    ]


def _same_bytes() -> Target:
    """Whether processes with other hash seeds answer with the same bytes."""
    command = [sys.executable, "-m", "bench.sync", "--digest"]
    digests = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in HASH_SEEDS
    }
    what = f"kinds of answers that {len(HASH_SEEDS)} processes with other hash seeds give"
    return Target(what=what, measured=len(digests), at_most=1)


def _digest() -> str:
    told = hashlib.sha256()
    for question in _questions("ns"):
        answer = questions.answer(
            question.path, json.loads(question.body), settings=SETTINGS, now=NOON
        )
        told.update(answer.model_dump_json().encode())
    return told.hexdigest()


def _questions(namespace: str) -> list[Question]:
    """What is asked about the service of that namespace, whose namesakes differ in nothing else."""
    return [
        Question(path=path, body=re.sub(r"\bns\b", namespace, body).encode())
        for path, body in _bodies().items()
    ]


@functools.cache
def _bodies() -> dict[str, str]:
    world = _everything()
    asked = {
        questions.COMPOSITE_SYNC: world.composite_request(),
        questions.COMPOSITE_CUSTOMIZE: {"parent": world.parent, "controller": {}},
        questions.DECORATOR_SYNC: world.decorator_request(),
        questions.DECORATOR_CUSTOMIZE: {"parent": world.parent, "controller": {}},
    }
    return {path: json.dumps(_as_sent(body)) for path, body in asked.items()}


def _everything() -> World:
    """A service that uses all there is, handed over to KEDA, with its Pods."""
    world = scenes.full()
    world.runtimes += [
        merged(
            world.runtimes[0],
            {"metadata": {"name": f"vllm-{number}"}, "spec": {"priority": -number}},
        )
        for number in range(1, RUNTIMES)
    ]
    world.parent = merged(
        world.parent,
        {
            "metadata": {"annotations": {"serving.noctaya.io/gateway-replicas": "2"}},
            "spec": {
                "model": {"source": {"uri": "hf://org/name@v1"}},
                "cache": {"prewarm": True},
                "endpoint": {"authentication": {"secretRef": {"name": "key", "key": "key"}}},
                "scaling": {
                    "externalScaler": {
                        "tls": {"serverSecretName": "tls", "authenticationRef": {"name": "keda"}}
                    }
                },
            },
        },
    )
    world.settle()
    world.gateway_becomes(available=True)
    world.settle()
    world.job_ends(complete=True)
    world.settle()
    world.keda_says("True", "ScaledObjectReady", "ScaledObject is defined correctly")
    world.scale(PODS, ready=PODS)
    for number in range(PODS):
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(world.now)}
        container = {"name": "engine", "ready": True, "restartCount": 0, "state": {"running": {}}}
        world.add_pod(
            f"m-backend-{number}",
            phase="Running",
            conditions=[ready],
            containerStatuses=[container],
        )
    world.settle()
    return world


def _as_sent(value: Any) -> Any:
    """With managedFields on every object, as API servers send them; about a third of each body."""
    if isinstance(value, list):
        return [_as_sent(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "kind" in value and "metadata" in value:
        entry = {
            "apiVersion": value.get("apiVersion", ""),
            "fieldsType": "FieldsV1",
            "fieldsV1": _fields(
                {**value, "metadata": {**value["metadata"], "managedFields": None}}
            ),
            "manager": "controller",
            "operation": "Update",
            "time": stamp(NOON),
        }
        return {**value, "metadata": {**value["metadata"], "managedFields": [entry]}}
    return {key: _as_sent(item) for key, item in value.items()}


def _fields(value: Any) -> Obj:
    """The field set of a value in the API server's notation; a list counts as one field."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": _fields(item) for key, item in value.items()}


if __name__ == "__main__":
    sys.exit(main())
