"""Coroutines beside each other, none of which outlives the block it was started for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def running(coroutine: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run it during the block. What it raises is raised where the block ends."""
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        await _end(task)


async def first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run them until one ends, and cancel the others."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def waited(event: asyncio.Event, *, seconds: float | None) -> bool:
    """Whether the event came within ``seconds``; None waits for as long as it takes."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel it and wait for it; a failure of its own is not swallowed."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        # Ours, unless somebody cancels us while we wait.
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
