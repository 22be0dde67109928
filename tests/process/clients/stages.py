"""Plays every stage: starts its gateway and its engine, and lets all clients call at once."""

import asyncio
import contextlib
import dataclasses
import json
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tests.process.clients import environments, users
from tests.process.clients.scenario import Scenario, Stage
from tests.process.clients.scenarios import ALL
from tests.process.clients.users import Client, Seen
from tests.process.gateway import keda, rig, stubs, wire

KEY = "sk-right"
# How long a cold start lasts: longer than any scenario's `timeout` and `chunk_timeout`.
_COLD_SECONDS = 5.0
# Clients import much when they are first used; many at once do so for long on a busy machine.
_ARRIVAL_SECONDS = 90.0
# When a gateway that nobody asked for its demand says so; HOPELESS_AFTER of gateway/activation.py.
_HOPELESS_SECONDS = 30.5
# Beside each other they would only wait for the processor.
_AT_ONCE = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """What one client's user saw in one scenario, and how often its client asked the gateway."""

    scenario: Scenario
    client: Client
    seen: Seen
    tries: int


class Play:
    """A stage while it is played: its gateway, its engine, and the calls of its scenarios."""

    def __init__(
        self,
        parts: list[Scenario],
        processes: Mapping[str, users.Process],
        gateway: rig.Gateway,
        engine: stubs.Engine,
    ) -> None:
        self.gateway = gateway
        self.engine = engine
        self._processes = processes
        self._parts = parts
        self._calls: dict[tuple[str, str], asyncio.Task[Seen]] = {}

    @property
    def each(self) -> list[tuple[Scenario, Client]]:
        return [
            (scenario, client)
            for scenario in self._parts
            for client in scenario.clients
            if client.process in self._processes
        ]

    def begin(self) -> None:
        for scenario, client in self.each:
            self.call(scenario, client)

    def call(self, scenario: Scenario, client: Client) -> None:
        line = {
            "id": _id(scenario, client),
            "kind": scenario.kind,
            "client": client.id,
            "base": f"http://127.0.0.1:{self.gateway.port}",
            "key": scenario.key,
            "model": scenario.id,
            "size": scenario.size,
            "retries": scenario.retries,
            "timeout": scenario.timeout,
            "chunk_timeout": scenario.chunk_timeout,
        }
        call = self._processes[client.process].call(line)
        self._calls[scenario.id, client.id] = asyncio.create_task(call)

    def up(self) -> None:
        self.gateway.tell(rig.endpoint(self.engine.port))

    async def warm(self) -> None:
        self.gateway.tell(rig.endpoint(self.engine.port, ready=True))
        await self.gateway.ready()

    async def asked(self, *, times: int) -> None:
        """Until the gateway was asked so often, whether the request still waits or is over."""

        async def reached() -> bool:
            state = await self.gateway.queue()
            over = len(self.gateway.log("request"))
            waiting, in_flight = int(state["waiting"]), int(state["inFlight"])
            return over + waiting + in_flight >= times

        await rig.eventually(reached, within=_ARRIVAL_SECONDS)

    async def ended(self) -> None:
        """Until all calls that began are over."""
        await asyncio.gather(*self._calls.values())

    async def cells(self) -> list[Cell]:
        await self.ended()
        await asyncio.sleep(0.1)  # Outcome lines are written when a request is over.
        tries = Counter(line["request_id"] for line in self.gateway.log("request"))
        return [
            Cell(
                scenario=scenario,
                client=client,
                seen=self._calls[scenario.id, client.id].result(),
                tries=tries[_id(scenario, client)],
            )
            for scenario, client in self.each
        ]


async def _warm(play: Play) -> None:
    await play.warm()
    play.begin()


async def _cold(play: Play) -> None:
    async with keda.calls(play.gateway.scaler_port) as stub:
        # Somebody is there to start the model.
        await keda.demand(stub)
    play.begin()
    await play.asked(times=len(play.each))
    await asyncio.sleep(_COLD_SECONDS)
    play.up()


async def _never(play: Play) -> None:
    play.begin()


async def _full(play: Play) -> None:
    async with play.gateway.client() as holder:
        holder.send(wire.post("/v1/completions", {"model": "m"}))
        await play.gateway.until(waiting=1)
        play.begin()
        await play.ended()


async def _rejecting(play: Play) -> None:
    """The model is up only once every client was told to come back."""
    play.begin()
    await play.asked(times=len(play.each))
    play.up()


async def _hopeless(play: Play) -> None:
    await play.gateway.ask(wire.post("/v1/completions", {"model": "m"}))
    await asyncio.sleep(_HOPELESS_SECONDS)
    play.begin()


async def _stopping(play: Play) -> None:
    await play.warm()
    play.begin()
    await play.asked(times=len(play.each))
    await asyncio.sleep(1)
    for _ in range(2):
        # The second one ends the grace.
        play.gateway.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)


async def _large(play: Play) -> None:
    """One after the other: each of them holds the body several times over."""
    await play.warm()
    for scenario, client in play.each:
        play.call(scenario, client)
        await play.ended()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plan:
    play: Callable[[Play], Awaitable[None]]
    flags: tuple[str, ...] = ()


_PLANS = {
    Stage.HOPELESS: _Plan(play=_hopeless, flags=("--cold-start", "reject")),
    Stage.WARM: _Plan(play=_warm),
    Stage.COLD: _Plan(play=_cold),
    Stage.COLD_WITH_DATA: _Plan(play=_cold, flags=("--data-heartbeats",)),
    Stage.NEVER_STARTS: _Plan(play=_never, flags=("--activation-timeout-seconds", "1")),
    Stage.SILENT: _Plan(play=_warm, flags=("--first-byte-timeout-seconds", "0.5")),
    # The estimates behind Retry-After: a second here, three below.
    Stage.FULL: _Plan(play=_full, flags=("--max-queue", "1", "--startup-budget-seconds", "2")),
    Stage.REJECTING: _Plan(
        play=_rejecting, flags=("--cold-start", "reject", "--startup-budget-seconds", "6")
    ),
    Stage.LOCKED: _Plan(play=_never, flags=("--api-key-file", "{folder}/key")),
    Stage.OTHER_MODEL: _Plan(play=_never, flags=("--served-model", "m")),
    Stage.SELDOM_BEATS: _Plan(
        play=_never,
        flags=("--heartbeat-interval-seconds", "30", "--activation-timeout-seconds", "20"),
    ),
    Stage.STOPPING: _Plan(play=_stopping),
    Stage.LARGE: _Plan(play=_large),
}


@dataclasses.dataclass(kw_only=True)
class Observed:
    """Everything that was seen. ``missing``: why a process could not be had; ``failed``: why a
    stage came to no end."""

    cells: dict[tuple[str, str], Cell]
    versions: dict[str, str]
    missing: dict[str, str]
    failed: dict[Stage, Exception]


async def observe(folder: Path) -> Observed:
    """Play every scenario with every client that can be had."""
    (folder / "key").write_text(KEY)
    observed = Observed(cells={}, versions={}, missing={}, failed={})
    places = asyncio.Semaphore(_AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:
        processes: dict[str, users.Process] = {}

        async def start(name: str) -> None:
            process = users.Process(name, folder / f"{name}.log")
            try:
                processes[name] = await stack.enter_async_context(process)
            except environments.Unavailable as e:
                observed.missing[name] = str(e)
            else:
                observed.versions[name] = process.version

        async def play(stage: Stage) -> None:
            # Of the hopeless one nearly all is waiting.
            async with contextlib.nullcontext() if stage is Stage.HOPELESS else places:
                try:
                    cells = await _play(stage, folder, processes)
                except Exception as e:  # noqa: BLE001 - the tests of its cells raise it.
                    observed.failed[stage] = e
                else:
                    observed.cells |= {(c.scenario.id, c.client.id): c for c in cells}

        await asyncio.gather(*map(start, users.PROCESSES))
        await asyncio.gather(*map(play, _PLANS))
    return observed


async def _play(stage: Stage, folder: Path, processes: Mapping[str, users.Process]) -> list[Cell]:
    plan = _PLANS[stage]
    parts = [part for part in ALL if part.stage is stage]
    scripts = {part.id: part.script for part in parts}

    async def script(to: stubs.Wire, received: stubs.Received) -> None:
        await scripts[json.loads(received.body)["model"]](to, received)

    flags = [flag.format(folder=folder) for flag in plan.flags]
    async with rig.Gateway(folder, *flags) as gateway, stubs.Engine(script) as engine:
        play = Play(parts, processes, gateway, engine)
        await plan.play(play)
        return await play.cells()


def _id(scenario: Scenario, client: Client) -> str:
    """The request id, by which the gateway's log tells the calls apart."""
    return f"{scenario.id}.{client.id}"
