"""What a request needs of the gateway around it."""

import asyncio
import dataclasses
from collections.abc import Callable

from gateway.activation import Activation
from gateway.admission import Admission
from gateway.authentication import KeyFile
from gateway.beats import Beats
from gateway.calls import Call
from gateway.demand import Demand
from gateway.pool import Pool
from gateway.replicas import ReplicaSet
from gateway.settings import Settings
from gateway.signals import Signals
from gateway.waiting import Estimate
from gateway.watching import Watchers


@dataclasses.dataclass(eq=False)
class Running:
    """A request between its beginning and its end. ``stopped``: cancelled by the gateway's own
    shutdown, not by its client's leaving."""

    task: asyncio.Task[object]
    call: Call
    stopped: bool = False


@dataclasses.dataclass(kw_only=True)
class Deps:
    loop: asyncio.AbstractEventLoop
    settings: Settings
    admission: Admission
    demand: Demand
    replicas: ReplicaSet
    activation: Activation
    estimate: Estimate
    beats: Beats
    pool: Pool
    signals: Signals
    own: Callable[[Call], None]  # Answers the gateway's own endpoints.
    keys: KeyFile | None  # None: the engine checks keys, if anybody does.
    watchers: Watchers
    scaler_seen: Callable[[], bool]
    running: set[Running] = dataclasses.field(default_factory=set)
    closing: bool = False
