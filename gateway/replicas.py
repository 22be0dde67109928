"""The backend's replicas, as told by EndpointSlices and by what asking them showed. No I/O here.

A replica is *starting*, *ready* or *terminating*. Kubernetes learns late that an engine answers
(a probe period) and late that it crashed; what the gateway saw itself counts more, except that a
terminating or vanished replica is never given another request.
"""

import dataclasses
import enum
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One endpoint of the slices. ``pod`` tells a new Pod from an old one on the same address."""

    address: Address
    pod: str
    ready: bool
    terminating: bool


class Proof(enum.Enum):
    """What the gateway saw itself, last."""

    NONE = enum.auto()
    ANSWERED = enum.auto()
    REFUSED = enum.auto()


class Replica:
    """Owned by a ReplicaSet, which alone changes everything but ``in_flight``."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        self.name = str(listed.address)
        self.proof = Proof.NONE
        self.gone = False
        self.in_flight = 0

    @property
    def address(self) -> Address:
        return self.listed.address

    @property
    def terminating(self) -> bool:
        return self.gone or self.listed.terminating

    @property
    def ready(self) -> bool:
        if self.terminating or self.proof is Proof.REFUSED:
            return False
        return self.listed.ready or self.proof is Proof.ANSWERED

    @property
    def starting(self) -> bool:
        return not self.terminating and not self.ready


class ReplicaSet:
    def __init__(self) -> None:
        self._replicas: dict[Address, Replica] = {}
        self._ready: list[Replica] = []
        self._listeners: list[Callable[[], None]] = []
        self._turn = 0

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def replace(self, listed: Iterable[Listed]) -> None:
        """The slices say so: what is no longer among them is gone."""
        told = {endpoint.address: endpoint for endpoint in listed}
        before = {address: replica.listed for address, replica in self._replicas.items()}
        if told == before:
            return
        for address, replica in list(self._replicas.items()):
            now = told.get(address)
            if now is None or now.pod != replica.listed.pod:
                replica.gone = True
                del self._replicas[address]
            else:
                if now.ready and not replica.listed.ready and replica.proof is Proof.REFUSED:
                    # Kubernetes saw it come back after we saw it refuse.
                    replica.proof = Proof.NONE
                replica.listed = now
        for address, endpoint in told.items():
            if address not in self._replicas:
                self._replicas[address] = Replica(endpoint)
        self._changed()

    def answered(self, replica: Replica) -> None:
        self._prove(replica, Proof.ANSWERED)

    def refused(self, replica: Replica) -> None:
        self._prove(replica, Proof.REFUSED)

    def addresses(self) -> list[Address]:
        return list(self._replicas)

    def ready(self) -> list[Replica]:
        """Not to be changed by the caller."""
        return self._ready

    def starting(self) -> list[Replica]:
        return [r for r in self._replicas.values() if r.starting]

    def ejected(self) -> list[Replica]:
        """Those that refused although Kubernetes says that they are ready."""
        return [r for r in self._replicas.values() if r.starting and r.listed.ready]

    def counts(self) -> dict[str, int]:
        replicas = self._replicas.values()
        return {
            "ready": sum(r.ready for r in replicas),
            "starting": sum(r.starting for r in replicas),
            "terminating": sum(r.terminating for r in replicas),
        }

    def choose(self) -> Replica | None:
        """The ready replica with the fewest requests in flight, in turns among equals."""
        ready = self._ready
        if len(ready) <= 1:
            return ready[0] if ready else None
        self._turn += 1
        turned = ready[self._turn % len(ready) :] + ready[: self._turn % len(ready)]
        return min(turned, key=lambda replica: replica.in_flight)

    def _prove(self, replica: Replica, proof: Proof) -> None:
        if replica.proof is not proof:
            replica.proof = proof
            self._changed()

    def _changed(self) -> None:
        self._ready = [r for r in self._replicas.values() if r.ready]
        for listener in self._listeners:
            listener()


def parse(slices: Iterable[Mapping[str, Any]], *, port_name: str) -> tuple[Listed, ...]:
    """Every endpoint of ``slices`` that has a port called ``port_name``.

    An address may stand in two slices while they are rewritten; the entry that can serve wins.
    Raises ValueError, LookupError, TypeError or AttributeError where the objects are not
    EndpointSlices.
    """
    found: dict[Address, Listed] = {}
    for piece in slices:
        for endpoint in _endpoints(piece, port_name):
            known = found.get(endpoint.address)
            if known is None or _worth(endpoint) > _worth(known):
                found[endpoint.address] = endpoint
    return tuple(found.values())


def _worth(endpoint: Listed) -> tuple[bool, bool]:
    return (not endpoint.terminating, endpoint.ready)


def _endpoints(piece: Mapping[str, Any], port_name: str) -> Iterable[Listed]:
    ports = [p["port"] for p in piece.get("ports") or () if p.get("name") == port_name]
    if piece.get("addressType") == "FQDN" or not ports or ports[0] is None:
        return
    for endpoint in piece.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        # Kubernetes: an absent ``ready`` is to be read as true, an absent ``terminating`` as false.
        ready = conditions.get("ready") is not False
        terminating = conditions.get("terminating") is True
        # By contract every address of one endpoint is the same Pod, and one is to be used.
        host = str(ipaddress.ip_address(endpoint["addresses"][0]))
        pod = endpoint.get("targetRef") or {}
        yield Listed(
            address=Address(host, int(ports[0])),
            pod=str(pod.get("uid") or pod.get("name") or ""),
            ready=ready,
            terminating=terminating,
        )
