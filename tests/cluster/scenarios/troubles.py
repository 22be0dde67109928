"""Services that are made to fail, each with a runtime of its own, so that it can be mended."""

import dataclasses
import json
import os
from typing import Any

from tests.cluster import cluster as running
from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import merged
from tests.cluster.scenarios.endpoint import Endpoint

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Trouble:
    """A service and its runtime."""

    endpoint: Endpoint
    runtime: Object

    def mend_runtime(self, **spec: Object) -> None:
        """The runtime as it should have been, with ``spec`` merged in."""
        sound = builders.runtime(self.runtime["metadata"]["name"])
        self.endpoint.cluster.apply(merged(sound, {"spec": spec}))

    def edit(self, **spec: Any) -> None:
        """A user's edit of the service's spec; a None removes a field."""
        self.endpoint.cluster.kubectl(
            "patch",
            f"llmservice/{self.endpoint.name}",
            f"-n={self.endpoint.namespace}",
            "--type=merge",
            f"--patch={json.dumps({'spec': spec})}",
        )

    def wait_failed(self, reason: str, *words: str, seconds: float = 90) -> None:
        """Wait until the service is degraded for that reason, in a message with these words."""
        self.endpoint.wait_condition("Degraded", "True", reason, seconds)
        self.wait_words("Degraded", *words)

    def wait_unresolved(self, reason: str, *words: str) -> None:
        """Wait until the status says that the spec cannot be acted on, in these words."""
        self.endpoint.wait_condition("Ready", "False", reason)
        self.wait_words("Ready", *words)

    def wait_words(self, condition: str, *words: str) -> None:
        def told() -> bool:
            message = self.endpoint.condition(condition).get("message", "")
            assert all(word in message for word in words), message
            return True

        self.endpoint.cluster.wait(f"{condition} says {words}", told)

    def reasons(self) -> list[str]:
        """The reasons of Ready, one after the other, as the API server took them."""
        told: list[str] = []
        for event in self.endpoint.writes(resource="llmservices", name=self.endpoint.name):
            for condition in (event.response or {}).get("status", {}).get("conditions", []):
                if condition["type"] == "Ready" and told[-1:] != [condition["reason"]]:
                    told.append(condition["reason"])
        return told


class Troubles:
    """Makes services, and removes them."""

    def __init__(self, cluster: running.Cluster) -> None:
        self.cluster = cluster
        self._namespaces: list[str] = []
        self._runtimes: list[str] = []

    def namespace(self, name: str) -> str:
        made = f"{name}-{os.urandom(2).hex()}"
        self._namespaces.append(made)
        self.cluster.kubectl("create", "namespace", made)
        return made

    def begin(
        self,
        name: str,
        *,
        runtime: Object | None = None,
        service: Object | None = None,
        beside: tuple[Object, ...] = (),
        replicas: tuple[int, int] = (1, 1),
    ) -> Trouble:
        """A service whose runtime's and own spec are overlaid, beside objects made before it."""
        namespace = self.namespace(name)
        made = merged(builders.runtime(namespace), {"spec": runtime or {}})
        self._runtimes.append(namespace)
        asked = builders.service(namespace, name, namespace, replicas=replicas)
        for neighbour in beside:
            self.cluster.apply(merged(neighbour, {"metadata": {"namespace": namespace}}))
        self.cluster.apply(made, merged(asked, {"spec": service or {}}))
        return Trouble(Endpoint(self.cluster, namespace, name), made)

    def end(self) -> None:
        """Without waiting: most often the rig goes with them."""
        for kind, names in (("namespace", self._namespaces), ("inferenceruntime", self._runtimes)):
            if names:
                self.cluster.kubectl("delete", kind, *names, "--wait=false", "--ignore-not-found")
