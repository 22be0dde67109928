"""What the flags of one of several gateways, and of a small one, do."""

from pathlib import Path

import pytest

from tests.process.gateway import rig, wire

pytestmark = pytest.mark.process


async def test_a_member_serves_no_scaler_and_stops_in_order(tmp_path: Path) -> None:
    """KEDA would keep a connection to it, and hear of its requests alone."""
    async with rig.Gateway(tmp_path, "--member") as gateway:
        with pytest.raises(ConnectionRefusedError):
            await wire.once(gateway.scaler_port, b"")
        assert (await gateway.ask(wire.get("/noctaya/queue"))).status == 200
        assert await gateway.stop() == 0


async def test_a_body_beyond_the_bytes_that_a_gateway_holds_is_429(tmp_path: Path) -> None:
    async with rig.Gateway(tmp_path, "--held-bytes", "1000", "--cold-start", "reject") as gateway:
        body = {"model": "m", "messages": [{"role": "user", "content": "x" * 1000}]}
        refused = await gateway.ask(wire.post("/v1/chat/completions", body))
        assert refused.status == 429
        assert "retry-after" in dict(refused.headers)
        body["messages"] = []
        assert (await gateway.ask(wire.post("/v1/chat/completions", body))).status == 503
