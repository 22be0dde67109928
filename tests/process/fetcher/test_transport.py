"""TLS with private authorities, proxies, redirects between schemes, and connections that died."""

import collections.abc
import contextlib
import datetime
import http.server
import ipaddress
import pathlib
import select
import socket
import ssl
import threading
import typing

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
_DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
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
    path = tmp_path_factory.mktemp("authority") / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


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
def tls_before(hub: localhub.LocalHub, authority: pathlib.Path) -> collections.abc.Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    port = int(hub.url.rpartition(":")[2])
    with Gate(("127.0.0.1", port), context, None) as gate:
        yield f"https://127.0.0.1:{gate.port}"


def plain_files(hub: localhub.LocalHub) -> None:
    """No CDN: everything comes from the hub's own address."""
    hub.repos["org/m"].lfs_suffixes = ("never",)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_private_authority_is_trusted_when_its_bundle_is_named(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path, variable: str
) -> None:
    plain_files(hub)
    with tls_before(hub, authority) as url:
        environ = {"HF_ENDPOINT": url, variable: str(authority)}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert run.code == 0, run.err
    assert rig.run("verify", str(cache)).code == 0


def test_an_unknown_authority_fails_at_once_in_words(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with tls_before(hub, authority) as url:
        run = rig.stage("hf://org/m", cache, environ={"HF_ENDPOINT": url})
    assert (run.code, "set SSL_CERT_FILE" in run.reason) == (16, True), run.err
    assert hub.seen == []


def test_a_bundle_that_is_not_there_is_a_mistake_in_words(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with tls_before(hub, authority) as url:
        environ = {"HF_ENDPOINT": url, "REQUESTS_CA_BUNDLE": "/absent"}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert (run.code, "REQUESTS_CA_BUNDLE=/absent" in run.reason) == (2, True), run.err


def test_a_redirect_from_https_to_http_is_refused(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with tls_before(hub, authority) as url:
        environ = {"HF_ENDPOINT": url, "SSL_CERT_FILE": str(authority)}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert (run.code, "redirects from https to http" in run.reason) == (16, True), run.err
    assert hub.asked("cdn") == []


def test_proxies_are_used_for_both_schemes_and_no_proxy_is_obeyed(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    plain_files(hub)
    with Gate(None, None, "Basic dXNlcjpwYSBzcw==") as proxy:
        address = f"http://user:pa%20ss@127.0.0.1:{proxy.port}"
        run = rig.stage("hf://org/m", cache, environ=hub.environ(http_proxy=address))
        assert run.code == 0, run.err
        assert all(line.startswith("GET http://127.0.0.1:") for line in proxy.lines)
        proxy.lines.clear()
        with tls_before(hub, authority) as url:
            environ = {"HF_ENDPOINT": url, "SSL_CERT_FILE": str(authority), "HTTPS_PROXY": address}
            run = rig.stage(f"hf://org/m@{localhub.COMMIT}", cache, environ=environ)
            assert run.code == 0, run.err
            assert proxy.lines
            assert all(line.startswith("CONNECT 127.0.0.1:") for line in proxy.lines)
            assert "pa ss" not in run.err
        proxy.lines.clear()
        environ = hub.environ(http_proxy=address, NO_PROXY="127.0.0.1,localhost")
        assert rig.stage("hf://org/m@master", cache, environ=environ).code == 0
        assert proxy.lines == []
        environ = hub.environ(http_proxy=f"http://127.0.0.1:{proxy.port}")
        run = rig.stage("hf://org/absent", cache, environ=environ)
        assert (run.code, "answers 407" in run.reason) == (16, True), run.err
        with tls_before(hub, authority) as url:
            environ = {"HF_ENDPOINT": url, "https_proxy": f"http://127.0.0.1:{proxy.port}"}
            run = rig.stage("hf://org/absent", cache, environ=environ)
        assert (run.code, "the proxy refuses" in run.reason) == (16, True), run.err


def test_a_kept_connection_that_the_server_closed_costs_no_try(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    plain_files(hub)
    closed: set[int] = set()

    def close_after(exchange: localhub.Exchange) -> bool:
        # Hangs up after its answer without having said so.
        exchange.handler.close_connection = True
        closed.add(id(exchange.handler))
        return exchange.kind == "resolve" and bool(
            exchange.content is not None and _quietly(exchange, exchange.content)
        )

    hub.fault = close_after
    run = rig.stage("hf://org/m", cache, "--tries=1", environ=hub.environ())
    assert run.code == 0, run.err
    assert len(closed) > 3


def _quietly(exchange: localhub.Exchange, content: bytes) -> bool:
    exchange.send_content(content)
    exchange.handler.close_connection = True
    return True


def test_an_old_server_that_closes_after_each_answer_is_fine(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    def old(exchange: localhub.Exchange) -> bool:
        typing.cast(
            http.server.BaseHTTPRequestHandler, exchange.handler
        ).protocol_version = "HTTP/1.0"
        exchange.handler.close_connection = True
        return False

    hub.fault = old
    run = rig.stage("hf://org/m", cache, "--tries=1", environ=hub.environ())
    assert run.code == 0, run.err
