"""The log's way out: full, closed, stalled; none of it is the requests' business."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

PLAIN = wire.post("/v1/chat/completions", {"model": "m", "messages": []})


async def serves(gateway: rig.Gateway, count: int) -> None:
    async with stubs.Engine() as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        async with gateway.client() as client:
            for _ in range(count):
                assert (await client.ask(PLAIN)).status == 200
    await gateway.settled()


async def test_a_log_that_cannot_be_written_costs_only_the_log(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, stderr=Path("/dev/full")) as gateway:
        await serves(gateway, 5)
        assert await gateway.stop() == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True, timeout=20
    )
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True, timeout=20)


@rig.needs_root
async def test_a_disk_that_fills_up_loses_lines_and_says_how_many(
    tmp_path: Path, small_disk: Path
) -> None:
    log, filler = small_disk / "log", small_disk / "filler"
    async with rig.Gateway(tmp_path, stderr=log) as gateway:
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(b"x" * 1024)
        await serves(gateway, 100)
        filler.unlink()
        await serves(gateway, 3)
        lines = [json.loads(line) for line in log.read_text().splitlines() if line[-1:] == "}"]
        assert sum(line["event"] == "request" for line in lines) < 103
        lost = sum(line["lines"] for line in lines if line["event"] == "log lines dropped")
        assert 0 < lost <= 110
        assert await gateway.stop() == 0


async def test_a_pipe_whose_reader_is_gone_costs_only_the_log(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    async with rig.Gateway(tmp_path, stderr=Path(f"/proc/self/fd/{writer}")) as gateway:
        os.close(writer)
        os.close(reader)
        await serves(gateway, 5)
        assert await gateway.stop() == 0


async def test_a_reader_that_stalls_holds_no_request_up_and_gets_the_rest_later(
    tmp_path: Path,
) -> None:
    """A container runtime that stops reading its log pipe; the pipe takes 64 KiB."""
    reader, writer = os.pipe()
    async with rig.Gateway(tmp_path, stderr=Path(f"/proc/self/fd/{writer}")) as gateway:
        os.close(writer)
        # 280 bytes a line: the pipe is full after some 230, what waits for it after 4,000 more.
        await serves(gateway, 6000)
        collected: list[bytes] = []

        def collect() -> None:
            while data := os.read(reader, 65536):
                collected.append(data)
                time.sleep(0.01)  # It has much to catch up with, when the gateway ends.

        reading = asyncio.get_running_loop().run_in_executor(None, collect)
        await serves(gateway, 3)
        assert await gateway.stop() == 0
        await reading
    os.close(reader)
    lines = [json.loads(line) for line in b"".join(collected).splitlines()]
    served = sum(line["event"] == "request" for line in lines)
    lost = sum(line["lines"] for line in lines if line["event"] == "log lines dropped")
    assert served > 3000
    # Besides requests there are a few lines about the gateway's own start and stop.
    assert 6003 <= served + lost <= 6010
    assert lines[-1]["event"] == "gateway stopped"
