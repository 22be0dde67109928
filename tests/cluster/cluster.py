"""What a test holds: one running cluster and the ways into it."""

import contextlib
import fcntl
import functools
import json
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import kubernetes
import requests

from tests.cluster import (
    accounts,
    audit,
    control_plane,
    diagnosis,
    errors,
    keda,
    layout,
    namespaces,
    node,
    programs,
    reads,
    rig,
    transport,
)

T = TypeVar("T")
Object = dict[str, Any]


class NotInTime(AssertionError):
    """Something waited for did not come; the message says what was seen last."""


class Cluster:
    """A running rig. Everything here may be used from any thread."""

    def __init__(self, instance: layout.Instance) -> None:
        self.instance = instance
        self.audit = audit.Log(instance.audit_log)
        self._reader = reads.Reader(instance, self._dial)

    # Objects

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """As the admin; a RigError with kubectl's last line where it fails."""
        return control_plane.kubectl(self.instance, *arguments, stdin=stdin)

    def apply(self, *manifests: Object | pathlib.Path, server_side: bool = False) -> None:
        """Objects, files, or folders (a kustomization where the folder has one)."""
        options = ["--server-side"] if server_side else []
        for manifest in manifests:
            if isinstance(manifest, pathlib.Path):
                built = (manifest / "kustomization.yaml").exists()
                flag = "--kustomize" if built else "--filename"
                self.kubectl("apply", *options, f"{flag}={manifest}")
            else:
                self.kubectl("apply", *options, "--filename=-", stdin=json.dumps(manifest))

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """The object, or None where it does not exist."""
        return self._reader.get(kind, name, namespace)

    def objects(self, kind: str, namespace: str = "default", selector: str = "") -> list[Object]:
        return self._reader.list(kind, namespace, selector)

    @functools.cached_property
    def api(self) -> Any:
        """A ``kubernetes.client.ApiClient`` of the admin, reaching in from this process."""
        load: Callable[[str], Any] = kubernetes.config.new_client_from_config
        client = load(str(self.instance.kubeconfig))
        transport.route(client.rest_client.pool_manager, self._dial)
        return client

    @contextlib.contextmanager
    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Iterator[str]:
        """A Kubernetes namespace for the block; everything in it is gone afterwards."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=90s")

    @contextlib.contextmanager
    def once(self, what: str) -> Iterator[bool]:
        """Whether the block is to do ``what``: True for the first of all processes that ask.

        The others wait until it is done; where it failed, the next one is the first.
        """
        folder = self.instance.state / "once"
        folder.mkdir(exist_ok=True)
        with open(folder / what, "a+") as note:
            fcntl.flock(note, fcntl.LOCK_EX)
            note.seek(0)
            first = not note.read()
            yield first
            if first:
                note.write("done")

    # Waiting

    def wait(self, what: str, probe: Callable[[], T], seconds: float = 60) -> T:
        """The first answer of ``probe`` that is true in Python's sense.

        A RigError or AssertionError of the probe counts as "not yet". On a time-out the error
        carries the last answer and the state of the cluster.
        """
        deadline = time.monotonic() + seconds
        while True:
            seen: object
            try:
                answer = probe()
                if answer:
                    return answer
                seen = answer
            except (AssertionError, errors.RigError, requests.RequestException) as e:
                seen = e
            if time.monotonic() > deadline:
                raise NotInTime(
                    f"{what}: not within {seconds:.0f} s; seen last: {str(seen)[:2000]}\n"
                    f"{diagnosis.report(self.instance)}"
                )
            time.sleep(0.1)

    def diagnosis(self, namespace: str | None = None) -> str:
        return diagnosis.report(self.instance, namespace)

    # Into the network

    def inside(self) -> contextlib.AbstractContextManager[None]:
        """This thread in the rig's network, for clients that open their own sockets.

        Names are still resolved by the machine: use ``url`` or ``address``.
        """
        return namespaces.network(self.instance.network)

    def session(self) -> requests.Session:
        """HTTP to ``http://SERVICE.NAMESPACE[:PORT]/...`` or any address inside."""
        return transport.session(self._dial)

    def address(self, name: str) -> str:
        """The address of ``SERVICE.NAMESPACE[.svc...]`` (an address is its own)."""
        with contextlib.suppress(OSError):
            socket.inet_aton(name)
            return name
        service, namespace, *_ = [*name.split("."), "default"]
        found = self.get("service", service, namespace)
        address: str = (found or {}).get("spec", {}).get("clusterIP", "None")
        if address in ("", "None"):
            raise errors.RigError(f"the Service {service} in {namespace} has no cluster address")
        return address

    def url(self, service: str, namespace: str = "default") -> str:
        """The base URL of a Service's first port, by address: for clients used ``inside``."""
        found = self.get("service", service, namespace)
        if found is None:
            raise errors.RigError(f"there is no Service {service} in {namespace}")
        return f"http://{found['spec']['clusterIP']}:{found['spec']['ports'][0]['port']}"

    def run(
        self, *argv: str | pathlib.PurePath, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine inside the rig, where Service names resolve."""
        return programs.run(self.instance, argv, check=check, timeout=timeout)

    def command(self, *argv: str | pathlib.PurePath) -> list[str]:
        """The command line for a client process of the test's own inside the rig."""
        return programs.enter(self.instance, argv, cwd=layout.REPOSITORY)

    # Programs

    def run_as_service_account(
        self,
        program: str,
        argv: Sequence[str | pathlib.PurePath],
        *,
        account: str,
        namespace: str,
        env: Mapping[str, str] | None = None,
    ) -> programs.Program:
        """Start a program with an account's rights; ``{kubeconfig}`` in argv names its file."""
        return accounts.run_as(
            self.instance, program, argv, account=account, namespace=namespace, env=env
        )

    def program(self, name: str) -> programs.Program:
        """A program of the rig, to freeze, kill or stop."""
        found = programs.find(self.instance, name)
        if found is None:
            raise errors.RigError(f"no program {name} was started: see {self.instance.state}")
        return found

    def keda_install(self) -> None:
        keda.install(self.instance)

    def keda_start(self) -> None:
        keda.start(self.instance)

    def keda_stop(self) -> None:
        keda.stop(self.instance)

    def keda_uninstall_crds(self) -> None:
        keda.uninstall_kinds(self.instance)

    # The node

    def crash(self, pod: Object) -> None:
        """Kill the processes of a Pod's containers, which are started again in their place."""
        for container in pod["status"]["containerStatuses"]:
            name = container["containerID"].partition("://")[2]
            node.ctr(self.instance, "tasks", "kill", "--signal=SIGKILL", name)

    def accelerators(self, resource: str, count: int) -> None:
        """Give the node ``count`` devices of an extended resource, and wait until it has them."""
        node.accelerators(self.instance, resource, count)

        def allocatable() -> bool:
            seen = self.get("node", layout.NODE_NAME) or {}
            found: object = seen["status"]["allocatable"].get(resource)
            return found == str(count)

        self.wait(f"the node can give {count} {resource}", allocatable, seconds=30)

    def load_own_images(self, say: rig.Say = lambda _: None) -> None:
        rig.load_own_images(self.instance, say)

    def _dial(self, host: str, port: int, timeout: float | None) -> socket.socket:
        return namespaces.connect(self.instance.network, (self.address(host), port), timeout)
