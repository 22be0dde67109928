"""One LLMService as its users and its administrator see it."""

import collections
import concurrent.futures
import dataclasses
import json
import threading
import time
from typing import Any

from tests.cluster import audit, noctaya
from tests.cluster import cluster as running
from tests.cluster.scenarios.builders import RUNNING

Object = dict[str, Any]

# A cold start here takes a few seconds; a busy machine may take ten times that.
PATIENCE_SECONDS = 90.0

# KEDA decides on 1 -> 0 at a poll, every 10 s, after the cooldown.
TO_ZERO_SECONDS = 90.0

_pool = concurrent.futures.ThreadPoolExecutor(max_workers=32, thread_name_prefix="client")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What a streaming client got, line by line, with the seconds since it asked."""

    status: int
    headers: dict[str, str]
    lines: list[tuple[float, str]]

    @property
    def heartbeats(self) -> list[float]:
        """When an SSE comment came."""
        return [at for at, line in self.lines if line.startswith(":")]

    @property
    def events(self) -> list[Object]:
        """The stream's events but for its end."""
        return [json.loads(d) for d in self._data() if d != "[DONE]"]

    @property
    def finished(self) -> bool:
        """Whether the stream came to its proper end without an error event."""
        return self._data()[-1:] == ["[DONE]"] and not any("error" in e for e in self.events)

    @property
    def error(self) -> Object:
        """What a client that was refused is told; empty for one that was not."""
        if self.status < 400:
            return {}
        return dict(json.loads("".join(line for _, line in self.lines))["error"])

    @property
    def text(self) -> str:
        """What the engine said."""
        deltas = [c.get("delta", {}) for e in self.events for c in e.get("choices", [])]
        return "".join(delta.get("content") or "" for delta in deltas)

    def _data(self) -> list[str]:
        return [line.removeprefix("data: ") for _, line in self.lines if line.startswith("data: ")]


def is_ready(pod: Object) -> bool:
    """Whether a Pod is ready and is to stay."""
    conditions = pod["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A service in the rig. Everything may be used from any thread."""

    cluster: running.Cluster
    namespace: str
    name: str
    model: str = "noctaya/echo"
    key: str | None = None  # What clients send, where they send one.
    via: str | None = None  # The address of one gateway, for clients that pass the Service by.

    @property
    def url(self) -> str:
        """Where clients go, by names that only `Cluster.session` knows."""
        return f"http://{self.via or f'{self.name}.{self.namespace}'}"

    def at(self, pod: Object) -> "Endpoint":
        """The same, for clients of one gateway."""
        return dataclasses.replace(self, via=f"{pod['status']['podIP']}:8080")

    # As a client

    def ask(self, words: str = "Good evening", **options: object) -> Answer:
        """One streaming chat completion, to its end; ``options`` go into its body."""
        body = {
            "model": self.model,
            "stream": True,
            "messages": [{"role": "user", "content": words}],
            **options,
        }
        begin = time.monotonic()
        with (
            self.cluster.session() as http,
            http.post(
                f"{self.url}/v1/chat/completions",
                json=body,
                headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
                stream=True,
                timeout=(10, PATIENCE_SECONDS),
            ) as answer,
        ):
            lines = [
                (time.monotonic() - begin, line.decode())
                for line in answer.iter_lines(chunk_size=None)
                if line
            ]
            return Answer(
                status=answer.status_code,
                headers={name.lower(): value for name, value in answer.headers.items()},
                lines=lines,
            )

    def asking(
        self, words: str = "Good evening", **options: object
    ) -> concurrent.futures.Future[Answer]:
        """The same, by a client with a thread of its own."""
        return _pool.submit(self.ask, words, **options)

    def asking_on(self, stop: threading.Event) -> concurrent.futures.Future[list[Answer]]:
        """A client that asks again and again, two seconds an answer at 10 tokens a second."""

        def ask_on() -> list[Answer]:
            answers = []
            while not stop.is_set():
                answers.append(self.ask(max_tokens=20, min_tokens=20))
            return answers

        return _pool.submit(ask_on)

    def queue(self) -> Object:
        """The gateway's own account of itself."""
        with self.cluster.session() as http:
            return dict(http.get(f"{self.url}/noctaya/queue", timeout=5).json())

    def scaler(self) -> Object:
        """What KEDA's counterpart says: of several gateways their scaler, else the gateway."""
        several = [pod for pod in self.pods("scaler") if is_ready(pod)]
        return (self.at(several[-1]) if several else self).queue()

    def running(self, pod: Object) -> int:
        """How many requests an engine works on, as it says itself."""
        with self.cluster.session() as http:
            text = http.get(f"http://{pod['status']['podIP']}:8000/metrics", timeout=5).text
        lines = (line.rsplit(" ", 1) for line in text.splitlines())
        return sum(int(float(value)) for name, value in lines if name.startswith(RUNNING))

    # As an administrator

    def service(self) -> Object:
        """The LLMService; an AssertionError where it does not exist."""
        return self._get("llmservice", self.name)

    def backend(self) -> Object:
        """The backend's Deployment; an AssertionError where it does not exist."""
        return self._get("deployment", f"{self.name}-backend")

    def gateway(self) -> Object:
        """The gateway's Deployment; an AssertionError where it does not exist."""
        return self._get("deployment", f"{self.name}-gateway")

    def scaled_object(self) -> Object:
        """KEDA's object; an AssertionError where it does not exist."""
        return self._get("scaledobject", self.name)

    def replicas(self) -> int:
        """How many backend replicas are asked for."""
        return int(self.backend()["spec"]["replicas"])

    def pods(self, component: str = "backend") -> list[Object]:
        """The service's Pods of one component, ending ones included."""
        selector = f"serving.noctaya.io/service={self.name},app.kubernetes.io/component={component}"
        return self.cluster.objects("pods", self.namespace, selector)

    def condition(self, kind: str) -> Object:
        """One condition of the service; empty where there is none yet."""
        conditions = self.service().get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def wait_condition(
        self, kind: str, status: str, reason: str, seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Wait until a condition has this status for this reason."""

        def told() -> bool:
            seen = self.condition(kind)
            assert (seen.get("status"), seen.get("reason")) == (status, reason), seen
            return True

        self.cluster.wait(f"{self.name} is {kind}={status} {reason}", told, seconds)

    def wait_asleep(self) -> None:
        """Wait until no backend Pod is left and the status says that a request will be served."""
        zero = f"{self.name} has no backend Pod"
        self.cluster.wait(zero, lambda: not self.replicas() and not self.pods(), TO_ZERO_SECONDS)
        self.wait_condition("Ready", "True", "ScaledToZero")

    def wait_armed(self) -> None:
        """Wait until KEDA listens to the scaler too, so that a request wakes without a poll."""
        self.wait_asleep()
        armed = f"KEDA is connected to {self.name}"
        self.cluster.wait(armed, lambda: self.scaler()["scalerConnected"], PATIENCE_SECONDS)

    def wait_ready(self, replicas: int = 1) -> None:
        """Wait until so many replicas are ready and the endpoint can be reached."""

        def ready() -> bool:
            seen = self.backend().get("status", {})
            assert seen.get("readyReplicas", 0) == replicas, seen
            return True

        self.cluster.wait(f"{replicas} replica(s) of {self.name}", ready, PATIENCE_SECONDS)
        self.wait_condition("Ready", "True", "Available")
        # The node's proxy learns of a new gateway a moment after the status does.
        self.cluster.wait(f"{self.name} is reachable", self.queue)

    # As the audit log remembers it

    def replica_numbers(self, since: audit.Mark = audit.START) -> list[int]:
        """Every number of replicas that was accepted for the backend, repeats left out."""
        numbers = [
            event.response["spec"].get("replicas", 0)
            for event in self.writes(since, resource="deployments", name=f"{self.name}-backend")
            if event.response and event.verb != "delete" and event.subresource != "status"
        ]
        return [n for i, n in enumerate(numbers) if i == 0 or numbers[i - 1] != n]

    def started_pods(self, since: audit.Mark = audit.START) -> int:
        """How many Pods ReplicaSets were told to have, of the backend only, at most at once."""
        sets = [
            int(event.response["spec"].get("replicas", 0))
            for event in self.writes(since, resource="replicasets")
            if event.response and event.name.startswith(f"{self.name}-backend-")
        ]
        return max(sets, default=0)

    def writes(
        self,
        since: audit.Mark = audit.START,
        *,
        resource: str | None = None,
        name: str | None = None,
    ) -> list[audit.Event]:
        """All that was written in the service's namespace, by anybody."""
        return [
            event
            for event in self.cluster.audit.writes(since=since, namespace=self.namespace)
            if resource in {None, event.resource} and name in {None, event.name}
        ]

    def deletions(self, since: audit.Mark = audit.START) -> collections.Counter[str]:
        """What Metacontroller deleted in the namespace, by kind."""
        ours = (e for e in self.writes(since) if e.user == noctaya.METACONTROLLER)
        return collections.Counter(e.resource for e in ours if e.verb == "delete")

    def _get(self, kind: str, name: str) -> Object:
        found = self.cluster.get(kind, name, self.namespace)
        assert found is not None, f"there is no {kind} {name} in {self.namespace}"
        return found
