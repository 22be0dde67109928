from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.process.certificates import Authority, Mounted
from tests.process.gateway import keda, rig

pytestmark = pytest.mark.process


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Authority]:
    yield Authority(tmp_path, "ours")


def credentials(server: Authority, client: tuple[bytes, bytes] | None) -> grpc.ChannelCredentials:
    key, certificate = client or (None, None)
    return grpc.ssl_channel_credentials(server.certificate.read_bytes(), key, certificate)


async def reaches(gateway: rig.Gateway, trusted: grpc.ChannelCredentials) -> bool:
    async with keda.calls(gateway.scaler_port, trusted) as stub:
        try:
            await stub.IsActive(keda.OURS, timeout=10)
        except grpc.aio.AioRpcError as e:
            assert e.code() is grpc.StatusCode.UNAVAILABLE
            return False
        return True


async def test_only_clients_with_a_certificate_of_ours_are_served(
    tmp_path: Path, ours: Authority
) -> None:
    theirs = Authority(tmp_path, "theirs")
    mounted = Mounted(tmp_path)
    mounted.write(ours.secret("server"))
    async with rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path)) as gateway:
        assert await reaches(gateway, credentials(ours, ours.issue("keda")))
        assert not await reaches(gateway, credentials(ours, theirs.issue("keda")))
        assert not await reaches(gateway, credentials(ours, None))
        assert not await reaches(gateway, credentials(theirs, ours.issue("keda2")))


async def test_a_rotation_needs_no_restart_and_leaves_open_streams_alone(
    tmp_path: Path, ours: Authority
) -> None:
    fresh = Authority(tmp_path, "fresh")
    mounted = Mounted(tmp_path)
    mounted.write(ours.secret("server"))
    async with rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path)) as gateway:
        old, new = credentials(ours, ours.issue("keda")), credentials(fresh, fresh.issue("keda"))
        async with keda.calls(gateway.scaler_port, old) as stub:
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            mounted.write(fresh.secret("server"))
            assert await reaches(gateway, new)
            assert not await reaches(gateway, old)
            assert not (await stub.IsActive(keda.OURS)).result
            assert await gateway.stop() == 0
            assert await pushes.code() is grpc.StatusCode.OK


async def test_a_rotation_to_what_cannot_be_used_keeps_what_was_there(
    tmp_path: Path, ours: Authority
) -> None:
    mounted = Mounted(tmp_path)
    secret = ours.secret("server")
    mounted.write(secret)
    async with rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path)) as gateway:
        client = credentials(ours, ours.issue("keda"))
        for broken in ({"tls.crt": b"junk"}, {"tls.key": ours.issue("other")[0]}, {"ca.crt": b""}):
            mounted.write(secret | broken)
            assert await reaches(gateway, client)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"tls.crt": None}, "tls.crt: No such file or directory"),
        ({"ca.crt": None}, "ca.crt: No such file or directory"),
        ({"tls.key": b"junk"}, "tls.crt and tls.key do not serve"),
        ({"tls.crt": b"junk"}, "tls.crt and tls.key do not serve"),
        ({"ca.crt": b"junk"}, "ca.crt holds no certificate"),
    ],
)
async def test_certificates_that_cannot_be_used_are_one_line_and_exit_1(
    tmp_path: Path, ours: Authority, broken: dict[str, bytes | None], words: str
) -> None:
    mounted = Mounted(tmp_path)
    files = {**ours.secret("server"), **broken}
    mounted.write({name: content for name, content in files.items() if content is not None})
    gateway = rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path))
    with pytest.raises(AssertionError, match=rf"--scaler-tls-dir: .*{words}.*; expected tls.crt"):
        async with gateway:
            pass
    assert gateway.process.returncode == 1


async def test_a_key_of_another_certificate_is_told(tmp_path: Path, ours: Authority) -> None:
    mounted = Mounted(tmp_path)
    mounted.write(ours.secret("server") | {"tls.key": ours.issue("other")[0]})
    with pytest.raises(AssertionError, match=r"do not serve .KEY_VALUES_MISMATCH"):
        async with rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path)):
            pass
