"""The preStop hook's part: a replica that was in use is held until it is quiet.

On a cluster a command in the container does this. It asks the engine at its container port, which
on this machine is not the port that the engine has, so the runner does the same from outside.
"""

import asyncio
import contextlib
import dataclasses
import re

from local import http

# As the rendered hook: requests that have just been routed are not yet in the engine's gauges.
QUIET_SECONDS = 10.0

LOOK_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drain:
    seconds: float
    """At most so long; 0: the runtime asks for no drain."""
    metrics_path: str = ""
    gauges: tuple[str, ...] = ()
    """What must be 0; none named: the whole time is waited, since nobody can tell."""


NONE = Drain(seconds=0)


async def hold(drain: Drain, port: int) -> None:
    """Return when the replica may be stopped."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(drain.seconds):
            if not drain.gauges:
                await asyncio.Event().wait()
            await _quiet(drain, port)


async def _quiet(drain: Drain, port: int) -> None:
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    while loop.time() - quiet_since < QUIET_SECONDS:
        try:
            _, body = await http.get(port, drain.metrics_path, seconds=LOOK_SECONDS)
        except TimeoutError:
            quiet_since = loop.time()  # A busy engine may answer late; it is not quiet.
        except OSError:
            return  # Nothing listens: there is nobody left to wait for.
        else:
            if busy(body.decode(errors="replace"), drain.gauges):
                quiet_since = loop.time()
        await asyncio.sleep(LOOK_SECONDS)


def busy(exposition: str, gauges: tuple[str, ...]) -> bool:
    """Whether one of the gauges is above 0 in a Prometheus exposition."""
    samples = (_SAMPLE.match(line) for line in exposition.splitlines())
    return any(
        float(sample["value"]) > 0 for sample in samples if sample and sample["name"] in gauges
    )


# A gauge of an engine is never negative or infinite; a time stamp may follow its value.
_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(\{.*\})?\s+(?P<value>[0-9.]+(e[+-]?[0-9]+)?)")
