"""The gRPC server under the scaler, in plain text or with mutual TLS."""

from pathlib import Path

import grpc

from gateway import listening, log
from gateway.proto import externalscaler_pb2_grpc as pb_grpc
from gateway.scaler import Scaler
from gateway.settings import Settings

_OPTIONS = [
    ("grpc.so_reuseport", 0),  # A port in use is an error, not a share of its connections.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
]
# For the streams to end by themselves, which takes no more than a turn of the loop.
_STOP_SECONDS = 1.0


class ScalerServer:
    def __init__(self, scaler: Scaler, settings: Settings) -> None:
        self._scaler = scaler
        self._at = settings.scaler_listen
        self._tls = None if settings.scaler_tls is None else _Certificates(settings.scaler_tls)
        self._server = grpc.aio.server(options=_OPTIONS)
        pb_grpc.add_ExternalScalerServicer_to_server(scaler, self._server)  # type: ignore[no-untyped-call]

    async def start(self) -> None:
        """Raises OSError, in words, where the port or the certificates cannot be had."""
        with listening.in_words("--scaler-listen", self._at):
            listening.try_port(self._at)
            if self._tls is None:
                self._server.add_insecure_port(str(self._at))
            else:
                self._server.add_secure_port(str(self._at), self._tls.credentials())
        await self._server.start()

    async def stop(self) -> None:
        self._scaler.stop()
        await self._server.stop(_STOP_SECONDS)


class _Certificates:
    """``tls.crt``, ``tls.key`` and the clients' ``ca.crt`` in a mounted Secret.

    gRPC asks at every handshake, so a rotation needs no restart: it is looked at, and read when it
    changed. A half-written or missing file keeps what was there.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in ("tls.key", "tls.crt", "ca.crt")]
        self._version: list[tuple[int, int]] = []

    def credentials(self) -> grpc.ServerCredentials:
        """Raises OSError where a file cannot be read."""
        first = self._read()
        return grpc.dynamic_ssl_server_credentials(
            first,
            self._changed,  # type: ignore[arg-type]  # gRPC: None means unchanged.
            require_client_authentication=True,
        )

    def _read(self) -> grpc.ServerCertificateConfiguration:
        version = self._look()
        key, certificate, clients = (path.read_bytes() for path in self._paths)
        self._version = version
        return grpc.ssl_server_certificate_configuration([(key, certificate)], clients)

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC, from a thread of its own."""
        try:
            return self._read() if self._look() != self._version else None
        except OSError as e:
            log.warning("scaler certificates not read", reason=str(e))
            return None

    def _look(self) -> list[tuple[int, int]]:
        stats = [path.stat() for path in self._paths]
        return [(stat.st_ino, stat.st_mtime_ns) for stat in stats]
