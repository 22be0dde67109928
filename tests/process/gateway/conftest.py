"""A gateway that all tests of a module share, and an engine that each of them has for itself.

None of the faults may leave a trace that the next would meet: what a test took is back when it
ends, and what a gateway keeps for a while is gone when the module ends.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.process.gateway import rig, stubs


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[rig.Gateway]:
    """With the ``FLAGS`` of the module, where it has some."""
    flags: tuple[str, ...] = getattr(request.module, "FLAGS", ())
    async with rig.Gateway(tmp_path_factory.mktemp("gateway"), *flags) as gateway:
        yield gateway
        await gateway.at_rest()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(gateway: rig.Gateway) -> AsyncIterator[stubs.Engine]:
    """Warm: the gateway knows it and has not asked it anything."""
    async with stubs.Engine() as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        yield engine
        gateway.tell()
        await gateway.ready(0)
    await gateway.settled()
