"""From the start of the process to its end: load, listen, serve, drain, stop; or crash."""

import asyncio
import contextlib
import os
import signal
import socket
import sys

from aiohttp import web

from engine import server
from engine.config import Config
from engine.state import Engine, note

# vLLM (uvicorn) closes an idle connection after 5 s; a proxy that pools must cope with it.
KEEP_ALIVE_SECONDS = 5.0

# What an aborted answer may take to write its last events.
ABORT_SECONDS = 1.0


def run(config: Config) -> int:
    """Serve until a signal comes. Returns the exit code of the process."""
    if config.crash_on_start:
        note("crashing", exit_code=config.crash_exit_code, reason="asked by --crash-on-start")
        return config.crash_exit_code
    try:
        sock = _bind(config)
    except OSError as e:
        where = f"{config.host}:{config.port}"
        sys.stderr.write(f"noctaya-echo: cannot listen on {where}: {e.strerror or e}\n")
        return 1
    with sock:
        return asyncio.run(_live(config, sock))


def _bind(config: Config) -> socket.socket:
    """Take the port without listening: until the model is loaded a connection is refused."""
    family, kind, proto, _, address = socket.getaddrinfo(
        config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


async def _live(config: Config, sock: socket.socket) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.crash_after_seconds is not None:
        loop.call_later(config.crash_after_seconds, _crash, config.crash_exit_code)
    if await _within(stop, config.load_seconds):
        return 0
    engine = Engine(config)
    runner = web.AppRunner(
        server.create_app(engine),
        access_log=None,
        # Bodies are JSON as they are; a compressed one is refused, as by vLLM.
        auto_decompress=False,
        # A client that leaves ends its generation.
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=ABORT_SECONDS,
    )
    await runner.setup()
    await web.SockSite(runner, sock).start()
    engine.listens()
    await stop.wait()
    await _drain(engine)
    await runner.cleanup()
    note("stopped")
    return 0


async def _drain(engine: Engine) -> None:
    """Let running requests finish for the shutdown timeout, then end them where they are."""
    engine.stopping = True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(engine.config.shutdown_timeout_seconds):
            await engine.idle()
    engine.aborting.set()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _crash(code: int) -> None:
    note("crashing", exit_code=code, reason="asked by --crash-after-seconds")
    os._exit(code)
