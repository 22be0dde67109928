"""A wall clock that is set while requests wait and run: nothing but the time in the log changes.

The clock of the gateway's own process jumps, C code under it included.
"""

import asyncio
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.gateway import keda, rig, stubs, wire

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the clock is moved by a C library"),
]

CHAT = wire.post("/v1/chat/completions", {"model": "m", "stream": True, "messages": []})
DAY = 24 * 3600


class WallClock:
    def __init__(self, folder: Path) -> None:
        library, self._offset = folder / "wallclock.so", folder / "offset"
        source = Path(__file__).with_name("wallclock.c")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"],
            check=True,
            timeout=60,
        )
        self._offset.write_bytes(struct.pack("=q", 0))
        self.environment = {"LD_PRELOAD": str(library), "WALLCLOCK_OFFSET": str(self._offset)}

    def jump(self, seconds: int) -> None:
        with self._offset.open("r+b") as file:
            file.write(struct.pack("=q", seconds))


async def cold_start(gateway: rig.Gateway, clock: WallClock, stub: Any) -> None:
    """Half way through it the clock jumps there and back; the stream goes on over both."""
    go_on = asyncio.Event()

    async def pause(to: stubs.Wire, _: stubs.Received) -> None:
        await to.write(stubs.STREAM_HEAD)
        await to.chunk(stubs.CHUNK_1)
        await go_on.wait()
        await to.chunk(stubs.DONE)
        await to.chunk(b"")

    async with gateway.client() as client, stubs.Engine(pause) as engine:
        client.send(CHAT)
        await client.head()
        for offset in (DAY, -DAY):
            clock.jump(offset)
            for _ in range(3):
                assert await client.chunk() == b": keep-alive\n\n"
            assert await keda.demand(stub) == (True, 1)
        gateway.tell(rig.endpoint(engine.port))
        while await client.chunk() != stubs.CHUNK_1:
            pass
        for offset in (DAY, 0):
            clock.jump(offset)
            # The limit on the engine's silence is 2 s, which neither jump may use up.
            await asyncio.sleep(0.5)
        go_on.set()
        assert await client.rest() == (stubs.DONE, True)
    gateway.tell()
    await gateway.ready(0)


async def test_a_wall_clock_that_jumps_ends_nothing_early_and_counts_nothing_wrong(
    tmp_path: Path,
) -> None:
    clock = WallClock(tmp_path)
    flags = ("--idle-timeout-seconds", "2", "--activation-timeout-seconds", "60")
    async with rig.Gateway(tmp_path, *flags, environment=clock.environment) as gateway:
        async with keda.calls(gateway.scaler_port) as stub:
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            await cold_start(gateway, clock, stub)
            await pushes.cancel()
        line = await gateway.last_request()
        assert (line["outcome"], line["status"]) == ("served", 200)
        phases = line["phases"]
        order = ("accepted", "signalled", "released", "forwarded", "first_byte")
        at = [phases[name] for name in order]
        assert at == sorted(at) and at[-1] - at[0] < 60
        for phase in ("signalled", "starting", "ready", "forwarded", "first_byte"):
            labels = f'{{phase="{phase}"}}'
            assert await gateway.metric("noctaya_activation_phase_seconds_count", labels) == 1
            spent = await gateway.metric("noctaya_activation_phase_seconds_sum", labels)
            assert 0 <= spent < 60, phase
        assert 0 < await gateway.metric("noctaya_activation_seconds_sum") < 60
        await gateway.at_rest()


async def test_a_key_is_rotated_under_a_clock_that_jumps(tmp_path: Path) -> None:
    clock, key = WallClock(tmp_path), tmp_path / "key"
    key.write_text("sk-0")
    flags = ("--api-key-file", str(key))
    async with rig.Gateway(tmp_path, *flags, environment=clock.environment) as gateway:
        for turn, offset in enumerate((DAY, -DAY, 0)):
            clock.jump(offset)
            key.write_text(f"sk-{turn + 1}")
            for given, status in ((f"sk-{turn}", 401), (f"sk-{turn + 1}", 404)):
                headers = {"authorization": f"Bearer {given}"}
                answer = await gateway.ask(wire.post("/nowhere", headers=headers))
                assert answer.status == status
