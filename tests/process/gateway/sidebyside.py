"""Scenarios that mostly wait, run at the same time: each has gateways and peers of its own, and one
test looks at its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

Scenario = Callable[[Path], Awaitable[None]]
Running = dict[Scenario, asyncio.Task[None]]


class SideBySide:
    """Decorates the scenarios of a module, and runs them from the module's fixture."""

    def __init__(self) -> None:
        self._scenarios: list[Scenario] = []

    def __call__(self, scenario: Scenario) -> Scenario:
        self._scenarios.append(scenario)
        return scenario

    @contextlib.asynccontextmanager
    async def running(self, folders: pytest.TempPathFactory) -> AsyncIterator[Running]:
        tasks = {
            scenario: asyncio.ensure_future(scenario(folders.mktemp("scenario")))
            for scenario in self._scenarios
        }
        try:
            yield tasks
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
