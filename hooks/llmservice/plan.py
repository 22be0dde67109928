"""What a resolved service is: every default applied, nothing optional left.

Where something may be absent, an empty value says so, and rendering leaves it out.
"""

import dataclasses
from decimal import Decimal
from typing import Literal

from hooks.api.llmservice import LLMServiceSpec
from hooks.k8s.objects import Object
from hooks.llmservice import sources
from hooks.llmservice.names import ServiceName
from hooks.llmservice.reasons import Reason
from hooks.settings import PullPolicy, Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unresolved:
    """A spec that cannot be acted on. Nothing is changed; the status says why."""

    reason: Reason
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Port:
    """The engine's port."""

    name: str
    number: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheClaim:
    """Weights are kept on a claim of our own."""

    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"]
    size: str
    storage_class: str  # Empty: the cluster's default.
    read_only: bool  # For the engine: weights are staged on it, and others may read them too.


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheInPod:
    """Weights are kept as long as the Pod lives."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheOnNode:
    """Weights are kept in a folder of each node that a replica ran on."""

    folder: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Download:
    """What the fetcher brings, and how."""

    uri: str
    image: str
    pull_policy: PullPolicy
    env: tuple[Object, ...]
    registry_secret: str  # Of type kubernetes.io/dockerconfigjson; empty: none.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Staging(Download):
    """A Job fetches the weights before any replica starts."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StagingOnNode(Download):
    """Each replica's first container fetches the weights, where its node does not have them yet.

    The one exception to the rule that no accelerator is held while weights are downloaded.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoStaging:
    """The engine fetches its weights, or they stand on a claim already."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine's container and what its Pod needs."""

    image: str
    args: tuple[str, ...]
    env: tuple[Object, ...]
    port: Port
    resources: Object
    shared_memory: str  # A quantity; empty: bounded by the node only.
    readiness: Object
    startup: Object
    liveness: Object
    pre_stop: Object
    grace_seconds: int
    startup_budget_seconds: int
    scrape: dict[str, str]  # Annotations of the backend's Service; empty: no metrics are named.
    node_selector: dict[str, str]
    tolerations: tuple[Object, ...]
    scheduler: str
    queue: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApiKey:
    """Clients must send the key that one key of a Secret holds."""

    secret: str
    key: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoApiKey:
    """Whoever reaches the endpoint may use it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Formation:
    """Who answers clients and who answers KEDA; see `hooks.llmservice.formation`."""

    gateways: int
    members: bool  # Gateways leave KEDA to the aggregate scaler.
    aggregate: bool  # There is an aggregate scaler.
    asked: Literal["gateway", "scaler"]  # The component that KEDA's Service leads to.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gateway:
    """What the gateways are told about their backend and their clients."""

    replicas: int
    formation: Formation  # Of that many, unless they are on the way to it.
    resources: Object
    held_bytes: int  # Bodies of waiting requests, all together, that a gateway keeps in memory.
    readiness: Object  # What may be asked of a starting replica; empty: nothing.
    served_models: tuple[str, ...]
    inference_paths: tuple[str, ...]
    first_byte_timeout: Decimal | Literal["default"]
    idle_timeout: Decimal | Literal["default"]
    drain_timeout: Decimal
    api_key: ApiKey | NoApiKey
    data_heartbeats: bool
    scaler_tls: str  # Secret of whoever serves KEDA; empty: in plain text.

    @property
    def several(self) -> bool:
        """Whether an aggregate scaler speaks for the gateways."""
        return self.replicas > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that rendering needs."""

    service: ServiceName
    namespace: str
    runtime: str
    spec: LLMServiceSpec
    source: sources.Source
    cache: CacheClaim | CacheInPod | CacheOnNode
    staging: Staging | StagingOnNode | NoStaging
    engine: Engine
    gateway: Gateway
    settings: Settings

    @property
    def pull_secrets(self) -> list[Object]:
        """Pull secrets of every Pod."""
        return [{"name": secret.name} for secret in self.spec.image_pull_secrets]
