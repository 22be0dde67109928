"""What stands between the fetcher and a server: TLS with a private authority, and proxies."""

import collections.abc
import contextlib
import datetime
import ipaddress
import pathlib
import select
import socket
import ssl
import threading
import typing
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def certify(path: pathlib.Path) -> None:
    """Write a self-signed certificate for 127.0.0.1, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )


class Gate:
    """A server on loopback that pumps bytes to where each connection asks, or to one place."""

    def __init__(
        self, target: tuple[str, int] | None, context: ssl.SSLContext | None, user: str | None
    ) -> None:
        self.lines: list[str] = []
        self._target = target
        self._context = context
        self._user = user
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> typing.Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            target, first = self._target, b""
            if target is None:
                target, first = self._asked(client)
            if target is not None:
                with socket.create_connection(target) as server:
                    server.sendall(first)
                    _pump(client, server)
            client.close()

    def _asked(self, client: socket.socket) -> tuple[tuple[str, int] | None, bytes]:
        """Read one request to a proxy: CONNECT, or a whole URL to be passed on."""
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        line = head.split(b"\r\n")[0].decode()
        self.lines.append(line)
        if self._user is not None and f"Proxy-Authorization: {self._user}".encode() not in head:
            client.sendall(b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return None, b""
        method, url, _ = line.split(" ")
        host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            return (host, int(port)), b""
        path = "/" + url.removeprefix("http://").partition("/")[2]
        return (host, int(port)), head.replace(url.encode(), path.encode(), 1)


def _pump(client: socket.socket, server: socket.socket) -> None:
    while True:
        pending = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if pending else select.select([client, server], [], [], 10)[0]
        if not ready:
            return
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)


@contextlib.contextmanager
def tls_before(url: str, authority: pathlib.Path) -> collections.abc.Iterator[str]:
    """An https address of a server that speaks plain HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    target = urllib.parse.urlsplit(url)
    assert target.hostname
    assert target.port
    with Gate((target.hostname, target.port), context, None) as gate:
        yield f"https://127.0.0.1:{gate.port}"
