"""The file that names the replicas, where no API server does."""

import json
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs

pytestmark = [pytest.mark.process, pytest.mark.asyncio]


async def test_a_file_that_is_written_in_place_is_read_once_it_is_whole(tmp_path: Path) -> None:
    replicas = tmp_path / "in-place.json"
    replicas.write_text('{"items":[]}')
    async with (
        rig.Gateway(tmp_path, "--replicas-from", f"file:{replicas}") as gateway,
        stubs.Engine() as engine,
    ):
        text = json.dumps(rig.slices(rig.endpoint(engine.port, ready=True)))
        for _ in range(3):
            with replicas.open("w") as file:
                for piece in (text[:40], text[40:]):
                    file.write(piece)
                    file.flush()
            await gateway.ready()
            replicas.write_text('{"items":[]}')
            await gateway.ready(0)


async def test_a_folder_that_comes_later_is_looked_for(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    replicas = folder / "replicas.json"
    async with (
        rig.Gateway(tmp_path, "--replicas-from", f"file:{replicas}", readable=False) as gateway,
        stubs.Engine() as engine,
    ):
        folder.mkdir()
        replicas.write_text(json.dumps(rig.slices(rig.endpoint(engine.port, ready=True))))
        await gateway.ready()


async def test_whatever_stands_in_the_place_of_the_file_the_last_replicas_are_kept(
    tmp_path: Path,
) -> None:
    replicas = tmp_path / "replaced.json"
    async with stubs.Engine() as engine:
        text = json.dumps(rig.slices(rig.endpoint(engine.port, ready=True)))
        replicas.write_text(text)
        async with rig.Gateway(tmp_path, "--replicas-from", f"file:{replicas}") as gateway:
            await gateway.ready()

            async def told(times: int) -> None:
                async def reached() -> bool:
                    return len(gateway.log("replicas not read")) == times

                await rig.eventually(reached)
                assert (await gateway.queue())["replicas"]["ready"] == 1

            replicas.write_text(text[:50])
            await told(1)
            replicas.unlink()
            replicas.mkdir()
            await told(2)
            replicas.rmdir()
            replicas.write_text('{"items":[]}')
            await gateway.ready(0)
