"""The gRPC server under the scaler, in plain text or with mutual TLS."""

import ssl
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
        credentials = None if self._tls is None else self._tls.credentials()
        with listening.in_words("--scaler-listen", self._at):
            listening.try_port(self._at)
            if credentials is None:
                self._server.add_insecure_port(str(self._at))
            else:
                self._server.add_secure_port(str(self._at), credentials)
        await self._server.start()

    async def stop(self) -> None:
        self._scaler.stop()
        await self._server.stop(_STOP_SECONDS)


class _Certificates:
    """``tls.crt``, ``tls.key`` and the clients' ``ca.crt`` in a mounted Secret.

    gRPC asks at every handshake, so a rotation needs no restart: it is looked at, and read when it
    changed. A file that is missing or cannot be used keeps what was there.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in ("tls.key", "tls.crt", "ca.crt")]
        self._version: list[tuple[int, int]] = []

    def credentials(self) -> grpc.ServerCredentials:
        """Raises OSError, in words, where a file cannot be read or used."""
        try:
            first = self._read()
        except OSError as e:
            said = f"{e.filename}: {e.strerror}" if e.filename else str(e)
            raise OSError(
                f"--scaler-tls-dir: {said}; expected tls.crt, its tls.key, and ca.crt, all PEM"
            ) from None
        return grpc.dynamic_ssl_server_credentials(
            first,
            self._changed,  # type: ignore[arg-type]  # gRPC: None means unchanged.
            require_client_authentication=True,
        )

    def _read(self) -> grpc.ServerCertificateConfiguration:
        version = self._look()
        key, certificate, clients = (path.read_bytes() for path in self._paths)
        self._check()
        self._version = version
        return grpc.ssl_server_certificate_configuration([(key, certificate)], clients)

    def _check(self) -> None:
        """Raises OSError. gRPC would say that it cannot bind to its port, or refuse everybody."""
        key, certificate, clients = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # An encrypted key would be asked for its password on a terminal.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as e:
            raise OSError(f"{certificate} and {key.name} do not serve ({e.reason})") from None
        try:
            context.load_verify_locations(clients)
        except ssl.SSLError as e:
            raise OSError(f"{clients} holds no certificate ({e.reason})") from None

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
