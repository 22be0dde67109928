"""What the running engine knows about itself: its turns, its notes and its metrics."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator

import engine
from engine.config import Config


def note(event: str, **facts: object) -> None:
    """One JSON object on stderr. ``time`` is in seconds since the epoch."""
    line = json.dumps({"time": time.time(), "event": event, **facts})
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Engine:
    """Counts requests as vLLM does, and notes when a cold start's last steps happened."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.running = 0
        self.waiting = 0
        self.stopping = False
        """A signal came: new requests are refused, running ones go on."""
        self.aborting = asyncio.Event()
        """Running requests end where they are, with finish_reason "abort"."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._seats = asyncio.Semaphore(config.max_num_seqs)
        self._listening_at = 0.0
        self._healthy_at = 0.0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a seat and hold it for the block; counted and freed on every way out."""
        self.waiting += 1
        self._idle.clear()
        try:
            await self._seats.acquire()
        except asyncio.CancelledError:
            self.waiting -= 1
            self._settle()
            raise
        self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._seats.release()
            self._settle()

    async def idle(self) -> None:
        """Return once no request runs or waits."""
        await self._idle.wait()

    async def pause(self, until: float) -> None:
        """Sleep until the loop's clock reads ``until``; less if running requests are aborted."""
        delay = until - asyncio.get_running_loop().time()
        if delay <= 0:
            await asyncio.sleep(0)  # Every token lets the others, and a client that left, in.
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self.aborting.wait()

    def listens(self) -> None:
        self._listening_at = time.time()
        note(
            "listening",
            started=engine.STARTED_AT,
            host=self.config.host,
            port=self.config.port,
            model=self.config.model,
        )

    def answered_healthy(self) -> None:
        if not self._healthy_at:
            self._healthy_at = time.time()
            note("healthy")

    def exposition(self) -> str:
        """The metrics in Prometheus' text form.

        Written by hand: the client library costs a tenth of a second of every cold start.
        """
        model = self.config.served_names[0].translate(_ESCAPES)
        labels = f'{{engine="0",model_name="{model}"}}'
        rows = [
            ("vllm:num_requests_running", "Requests that generate.", labels, self.running),
            ("vllm:num_requests_waiting", "Requests that wait for a seat.", labels, self.waiting),
            (
                "noctaya_echo_listening_timestamp_seconds",
                "When the port began to listen, in seconds since the epoch.",
                "",
                self._listening_at,
            ),
            (
                "noctaya_echo_first_healthy_timestamp_seconds",
                "When /health first answered 200; 0 until then.",
                "",
                self._healthy_at,
            ),
        ]
        return "".join(
            f"# HELP {name} {text}\n# TYPE {name} gauge\n{name}{label} {float(value)!r}\n"
            for name, text, label, value in rows
        )

    def _settle(self) -> None:
        if not self.running and not self.waiting:
            self._idle.set()


# Prometheus' escapes inside a label value.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
