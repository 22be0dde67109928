"""One LLMService on this machine: its objects, its processes, its scaling, its words.

Every change, of a process or of the scale, ends in one look: processes are observed as Pods, the
hooks are asked until nothing changes, Deployments are matched, the user is told. What a request
waits for does not wait for a look: a scale-up starts its process at once.
"""

import asyncio
import dataclasses
import datetime
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.settings import Settings
from local import (
    concurrently,
    deployments,
    drain,
    http,
    keda,
    kubelet,
    metacontroller,
    plan,
    pods,
    ports,
    processes,
    report,
    slices,
)
from local.errors import Failure
from local.prepare import Prepared

# How often the gateway is asked what waits and runs, to show it.
QUEUE_LOOK_SECONDS = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """What all services of one run share."""

    environ: Mapping[str, str]
    logs: Path
    state: Path
    book: processes.Keeper
    settings: Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ports:
    """Of one service's gateway."""

    http: int
    scaler: int


class Service:
    """Nothing is started before ``run``; ``stop`` leaves nothing running."""

    def __init__(
        self,
        prepared: Prepared,
        pair: Ports,
        machine: Machine,
        tell: Callable[["Service", report.Snapshot], None],
    ) -> None:
        self.prepared = prepared
        self.endpoint = f"http://{slices.ADDRESS}:{pair.http}/v1"
        self.failure = ""
        """How its engine ended before it had answered once in this run; empty: it did not."""
        self.fatal = ""
        """Why there is no endpoint; empty: nothing is known against it."""
        self._ports = pair
        self._scaler_address = f"{slices.ADDRESS}:{pair.scaler}"
        self._machine = machine
        self._tell = tell
        self._changed = asyncio.Event()
        self._world = prepared.world
        self._engine_has_answered = False
        self._waiting = self._running = 0
        # No name in Kubernetes holds an underscore: two services never share a file.
        file = prepared.key.replace("/", "_")
        self._slices_file = machine.state / f"{file}.json"
        self._api_key = None if prepared.api_key is None else machine.state / f"{file}.key"
        self._logs = {name: machine.logs / f"{file}_{name}.log" for name in ("engine", "gateway")}
        self._backend = deployments.Replicas(
            prepared.backend,
            self._engine,
            machine.book,
            self._process_changed,
            spare=not prepared.holds_device,
        )
        self._gateway = deployments.Replicas(
            prepared.gateway, self._front, machine.book, self._process_changed, spare=True
        )
        self._scaler = keda.Keda(self._scaler_address, self)

    async def run(self) -> None:
        """Until cancelled."""
        self._publish()
        self._hand_out_key()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_queue())
            tasks.create_task(self._scaler.run())
            while True:
                self._changed.clear()
                self._look()
                seconds = self._world.resync_after_seconds or None
                await concurrently.waited(self._changed, seconds=seconds)

    async def stop(self) -> None:
        await asyncio.gather(self._gateway.stop(), self._backend.stop())

    @property
    def is_ready(self) -> bool:
        """A request would be answered, from zero or not."""
        return objects.condition(self._world.parent, "Ready").get("status") == "True"

    # What KEDA's part asks and says.

    def replicas(self) -> int:
        return objects.number(self._deployment(self.prepared.backend), "spec", "replicas") or 0

    def scale(self, replicas: int) -> None:
        backend = self._deployment(self.prepared.backend)
        scaled = {**backend, "spec": {**backend["spec"], "replicas": replicas}}
        self._world = self._world.with_deployment(scaled)
        self._backend.match(replicas)
        self._changed.set()

    def scaler_answers(self, *, active: bool) -> None:
        self._world = self._world.with_autoscaler_status(keda.status(active=active))
        self._changed.set()

    # One look.

    def _look(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        seen: list[Object] = []
        for name, replicas in self._roles():
            deployment, its_pods = deployments.observed(
                self._deployment(name), replicas.all, now=now
            )
            self._world = self._world.with_deployment(deployment)
            seen += its_pods
        self._world = metacontroller.settle(
            dataclasses.replace(self._world, pods=seen), settings=self._machine.settings, now=now
        )
        for name, replicas in self._roles():
            replicas.match(objects.number(self._deployment(name), "spec", "replicas") or 0)
        self._scaler.follow(self._world.scaled_object)
        self._report()

    def _roles(self) -> tuple[tuple[str, deployments.Replicas], ...]:
        return (self.prepared.backend, self._backend), (self.prepared.gateway, self._gateway)

    def _deployment(self, name: str) -> Object:
        found = self._world.deployment(name)
        assert found is not None  # The hooks never take back what they have rendered.
        return found

    def _process_changed(self) -> None:
        self._publish()
        self._notice_failure()
        self._changed.set()

    def _publish(self) -> None:
        """Tell the gateway at once where engines run; it asks starting ones itself."""
        listed = slices.slice_list(
            [
                slices.Endpoint(pod=replica.seen.pod, port=replica.port, state=_state(replica.seen))
                for replica in self._backend.all
                # The port of one that does not run may be somebody else's by now.
                if replica.seen.started_at is not None
            ],
            namespace=objects.text(self._world.parent, "metadata", "namespace"),
            service=self.prepared.backend,
            port_name=self.prepared.port_name,
        )
        try:
            slices.write(self._slices_file, listed)
        except Failure as e:
            self.fatal = self.fatal or str(e)

    def _hand_out_key(self) -> None:
        """As a cluster mounts it: in a file of its own, that nobody else may read."""
        key = self.prepared.api_key
        if self._api_key is None or key is None or key.value is None:
            return
        try:
            descriptor = os.open(self._api_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(key.value)
        except OSError as e:
            self.fatal = self.fatal or f"{self._api_key}: cannot be written: {e.strerror}"

    def _notice_failure(self) -> None:
        for replica in self._backend.all:
            self._engine_has_answered = self._engine_has_answered or replica.answered
            ended = replica.seen.last_exit
            if ended is not None and not self._engine_has_answered and not self.failure:
                lasted = (ended.at - ended.started_at).total_seconds()
                self.failure = (
                    f"{self.prepared.command_place}: the engine of {self.prepared.key} exited "
                    f"with code {ended.code} after {lasted:.1f} s and never answered; --log-dir "
                    f"DIR keeps its log, which ends: {ended.last_words or '(empty)'}"
                )
        for front in self._gateway.all:
            ended = front.seen.last_exit
            if ended is not None and not front.answered and not self.fatal:
                self.fatal = ports.refusal(self._ports.http) or (
                    f"the gateway of {self.prepared.key} exited with code {ended.code} and never "
                    f"answered; its log ends: {ended.last_words or '(empty)'}"
                )

    # What runs.

    def _engine(self, pod: str) -> kubelet.Task:
        backend = self._deployment(self.prepared.backend)
        return kubelet.Task(
            pod=pod,
            program=plan.engine(backend, self.prepared.words, self._machine.environ),
            log=self._logs["engine"],
            port=None,
            probe=self.prepared.engine_probe,
            drain=self.prepared.drain,
            grace_seconds=plan.grace_seconds(backend),
        )

    def _front(self, pod: str) -> kubelet.Task:
        gateway = self._deployment(self.prepared.gateway)
        return kubelet.Task(
            pod=pod,
            program=plan.gateway(
                gateway,
                self._machine.environ,
                scaler=self._scaler_address,
                replicas=self._slices_file,
                api_key=self._api_key,
            ),
            log=self._logs["gateway"],
            port=self._ports.http,
            own_port=self._ports.scaler,
            probe=self.prepared.gateway_probe,
            drain=drain.NONE,
            grace_seconds=plan.grace_seconds(gateway),
        )

    # What is told.

    async def _watch_queue(self) -> None:
        while True:
            await asyncio.sleep(QUEUE_LOOK_SECONDS)
            counts = await self._queue()
            if counts != (self._waiting, self._running):
                self._waiting, self._running = counts
                self._report()

    async def _queue(self) -> tuple[int, int]:
        """(waiting, running) as the gateway counts them; none while it does not answer."""
        try:
            _, body = await http.get(self._ports.http, "/noctaya/queue", seconds=1.0)
            queue = json.loads(body)
        except (OSError, TimeoutError, ValueError):
            return 0, 0
        return objects.number(queue, "waiting") or 0, objects.number(queue, "inFlight") or 0

    def _report(self) -> None:
        parent = self._world.parent
        ready = objects.condition(parent, "Ready")
        reason = objects.text(ready, "reason")
        refusals = [r.seen.refusal for r in self._backend.all if r.seen.started_at is not None]
        self._tell(
            self,
            report.Snapshot(
                service=objects.text(parent, "metadata", "name"),
                namespace=objects.text(parent, "metadata", "namespace"),
                phase=objects.text(parent, "status", "phase"),
                reason=reason,
                message=report.message(
                    reason, objects.text(ready, "message"), next(filter(None, refusals), "")
                ),
                replicas=objects.number(parent, "status", "replicas") or 0,
                waiting=self._waiting,
                running=self._running,
                endpoint=self.endpoint,
            ),
        )


def _state(seen: pods.Replica) -> slices.State:
    if seen.ending_since is not None:
        return "terminating"
    return "ready" if seen.ready else "starting"
