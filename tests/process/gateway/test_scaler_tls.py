import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.process.gateway import keda, rig

pytestmark = pytest.mark.process


class Authority:
    """A certificate authority, and what it vouches for."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self.certificate = self._folder / "ca.crt"
        self._run(
            "req", "-x509", *_KEY, "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.crt"
        )

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Key and certificate for 127.0.0.1."""
        self._run(
            "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        (self._folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        self._run(
            *("x509", "-req", "-in", f"{name}.csr", *signing),
            *("-extfile", "names", "-out", f"{name}.crt"),
        )
        return tuple((self._folder / f"{name}.{end}").read_bytes() for end in ("key", "crt"))  # type: ignore[return-value]

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Mounted:
    """The server's Secret as the kubelet mounts it: replaced whole, by one rename."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = 0
        self.path = folder / "mounted"

    def write(self, server: tuple[bytes, bytes], clients: Path) -> None:
        self._turn += 1
        data = self._folder / f"version-{self._turn}"
        data.mkdir()
        for name, content in zip(("tls.key", "tls.crt"), server, strict=True):
            (data / name).write_bytes(content)
        (data / "ca.crt").write_bytes(clients.read_bytes())
        link = self._folder / "link"
        link.symlink_to(data)
        os.replace(link, self.path)


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
    mounted.write(ours.issue("server"), ours.certificate)
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
    mounted.write(ours.issue("server"), ours.certificate)
    async with rig.Gateway(tmp_path, "--scaler-tls-dir", str(mounted.path)) as gateway:
        old, new = credentials(ours, ours.issue("keda")), credentials(fresh, fresh.issue("keda"))
        async with keda.calls(gateway.scaler_port, old) as stub:
            pushes = keda.Pushes(stub.StreamIsActive(keda.OURS))
            await pushes.until(1)
            mounted.write(fresh.issue("server"), fresh.certificate)
            assert await reaches(gateway, new)
            assert not await reaches(gateway, old)
            assert not (await stub.IsActive(keda.OURS)).result
            assert await gateway.stop() == 0
            assert await pushes.code() is grpc.StatusCode.OK


async def test_missing_certificates_are_one_line_and_exit_1(tmp_path: Path) -> None:
    gateway = rig.Gateway(tmp_path, "--scaler-tls-dir", str(tmp_path / "nowhere"))
    with pytest.raises(AssertionError, match="No such file or directory"):
        async with gateway:
            pass
    assert gateway.process.returncode == 1
