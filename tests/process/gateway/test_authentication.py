import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.gateway import rig, stubs, wire

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"


class Secret:
    """A mounted Secret: a symbolic link to a folder, which the kubelet replaces in one rename."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = 0
        self.path = folder / "data" / "key"

    def write(self, content: bytes | None) -> None:
        self._turn += 1
        data = self._folder / f"data-{self._turn}"
        data.mkdir()
        if content is not None:
            (data / "key").write_bytes(content)
        link = self._folder / "new"
        link.symlink_to(data)
        os.replace(link, self._folder / "data")


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    secret = Secret(tmp_path)
    secret.write(b"sk-right\n")
    return secret


@pytest.fixture
async def gateway(tmp_path: Path, secret: Secret) -> AsyncIterator[rig.Gateway]:
    async with rig.Gateway(tmp_path, "--api-key-file", str(secret.path)) as gateway:
        yield gateway


def ask(key: str | None, path: str = CHAT) -> bytes:
    return wire.post(path, headers={} if key is None else {"authorization": key})


async def test_only_the_right_key_gets_through_and_stays_here(gateway: rig.Gateway) -> None:
    async with stubs.Engine() as engine:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        for wrong in (None, "", "Bearer", "Bearer wrong", "Bearer sk-righ", "sk-right", "Basic x"):
            answer = await gateway.ask(ask(wrong))
            assert answer.status == 401, wrong
            assert answer.error()["code"] == "invalid_api_key"
        assert not engine.received
        for right in ("Bearer sk-right", "bearer sk-right", "BEARER  sk-right "):
            assert (await gateway.ask(ask(right))).status == 200
        assert engine.received[0].header("authorization") is None
        assert await gateway.metric(
            'noctaya_requests_total{outcome="unauthenticated",status="401"}'
        )


async def test_a_wrong_key_takes_no_slot_reads_no_body_and_wakes_nothing(
    gateway: rig.Gateway,
) -> None:
    odd = ("//v1/chat/completions", "/V1/chat/completions", "/v1%2Fchat")
    for path in (CHAT, "/tokenize", "/invocations", "/nowhere", *odd):
        headers = {"authorization": "Bearer no", "content-length": "99", "expect": "100-continue"}
        answer = await gateway.ask(wire.post(path, b"", headers=headers))
        assert answer.status == 401, path
        answer.error()
    assert (await gateway.ask(wire.get("/v1/models"))).status == 401
    state = await gateway.queue()
    assert (state["active"], state["activation"]) == (False, None)
    await gateway.settled()


async def test_probes_and_scripts_need_no_key(gateway: rig.Gateway) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/noctaya/queue"):
        assert (await gateway.ask(wire.get(path))).status == 200


async def test_no_answer_is_wrong_from_the_moment_that_the_file_changes(
    gateway: rig.Gateway, secret: Secret
) -> None:
    async with stubs.Engine() as engine, gateway.client() as client:
        gateway.tell(rig.endpoint(engine.port, ready=True))
        await gateway.ready()
        for turn in range(60):
            old, new = f"Bearer sk-{turn}", f"Bearer sk-{turn + 1}"
            secret.write(f"sk-{turn + 1}".encode())
            assert (await gateway.ask(ask(old))).status == 401
            assert (await client.ask(ask(new))).status == 200


@pytest.mark.parametrize("content", [b"", b"\n", None], ids=["empty", "blank", "missing"])
async def test_without_a_key_nobody_gets_in_and_the_gateway_stays_ready(
    gateway: rig.Gateway, secret: Secret, content: bytes | None
) -> None:
    secret.write(content)
    for key in (None, "Bearer ", "Bearer sk-right"):
        answer = await gateway.ask(ask(key))
        assert answer.status == 503
        assert answer.error()["code"] == "authentication_unavailable"
    assert (await gateway.ask(wire.get("/readyz"))).status == 200
    secret.write(b"sk-right")
    assert (await gateway.ask(ask("Bearer sk-right", "/nowhere"))).status == 404


async def test_keys_stand_in_no_log_no_error_and_no_metric(gateway: rig.Gateway) -> None:
    secrets = ["sk-right", "sk-wrong-1", "sk-wrong-2"]
    said = b""
    for key in ("Bearer sk-right", "Bearer sk-wrong-1"):
        said += (await gateway.ask(ask(key, "/nowhere"))).body
    broken = f"POST {CHAT} HTTP/1.1\r\nauthorization: Bearer sk-wrong-2{'x' * 9000}\r\n\r\n"
    said += (await gateway.ask(broken.encode())).body
    said += (await gateway.ask(wire.get("/metrics"))).body
    said += gateway.log_text().encode()
    assert not [secret for secret in secrets if secret.encode() in said]


async def test_a_key_file_that_is_written_in_place_twice_within_a_tick_is_not_mistaken(
    tmp_path: Path,
) -> None:
    """Times of files move in steps; same length, same inode, same step: only the bytes differ."""
    path = tmp_path / "key"
    path.write_bytes(b"sk-00")
    async with rig.Gateway(tmp_path, "--api-key-file", str(path)) as gateway:
        async with gateway.client() as client:
            file = os.open(path, os.O_WRONLY)
            for turn in range(60):
                os.pwrite(file, b"sk-%02d" % turn, 0)
                right = wire.get("/v1/models", headers={"authorization": f"Bearer sk-{turn:02}"})
                assert (await client.ask(right)).status == 200, turn
            os.close(file)
        await gateway.settled()
