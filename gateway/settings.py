"""What the flags say, with every default applied: values that the rest of the gateway is given."""

import dataclasses
import enum
from pathlib import Path


class ColdStart(enum.Enum):
    KEEPALIVE = "keepalive"
    REJECT = "reject"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listen:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Readiness:
    """The runtime's readiness request, as in a Kubernetes ``httpGet`` probe."""

    path: str
    scheme: str
    headers: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FromFile:
    """Replicas stand in a file that holds an EndpointSliceList and is replaced by rename."""

    path: Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class FromEndpointSlices:
    """Replicas are watched in the cluster, with the Pod's own service account."""

    account: Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """All durations are seconds."""

    namespace: str
    service: str
    listen: Listen
    scaler_listen: Listen
    replicas_from: FromFile | FromEndpointSlices
    backend_service: str
    backend_port: str
    readiness: Readiness | None
    max_queue: int
    cold_start: ColdStart
    heartbeat_interval: float
    data_heartbeats: bool
    activation_timeout: float
    min_replicas: int
    target: float
    drain_timeout: float
    startup_budget: float
    served_models: frozenset[str]
    inference_paths: frozenset[str]
    first_byte_timeout: float
    idle_timeout: float
    accept_after_term: float
    api_key_file: Path | None
    scaler_tls: Path | None
    aggregate: bool
    member: bool
    # Bodies of requests in memory, all together; a request without a place for its body gets 429.
    held_bytes: int

    @property
    def grace(self) -> float:
        """How long a gateway that was told to stop goes on for the requests that it holds."""
        return max(self.drain_timeout, 60.0)
