"""A registry's words lead elsewhere: what follows them, and what never does."""

import base64
import collections.abc
import http.server
import json
import pathlib

import pytest

from tests.process.fetcher import gates, models, registries, rig, serving

pytestmark = pytest.mark.process
REPO = "models/m"
PLAIN = "--plain-http"


class Elsewhere(serving.Serving):
    """Another server on loopback, which notes what it is asked for and answers `content`."""

    def __init__(
        self, content: bytes = b"", *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                named = {name.lower(): value for name, value in self.headers.items()}
                outer.seen.append((self.path, named))
                answer(
                    self, status, content, {**(headers or {}), "Content-Length": str(len(content))}
                )

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"


def answer(
    handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def redirecting(to: str) -> collections.abc.Callable[[http.server.BaseHTTPRequestHandler], bool]:
    def on_blob(handler: http.server.BaseHTTPRequestHandler) -> bool:
        answer(handler, 307, b"", {"Location": to, "Content-Length": "0"})
        return True

    return on_blob


def credentials(path: pathlib.Path, host: str) -> str:
    shown = base64.b64encode(f"{registries.USER}:{registries.PASSWORD}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": shown}}}))
    return f"--registry-auth={path}"


def test_credentials_do_not_follow_a_registrys_blobs_to_its_store(
    cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    content = models.noise(50_000)
    with (
        registries.with_basic(tmp_path) as registry,
        Elsewhere(content) as store,
        registries.in_front(registry, redirecting(f"{store.url}/b?Signature=s3cr3t")) as host,
    ):
        uri = registry.push_files(REPO, {"w.bin": content}).replace(registry.host, host)
        run = rig.stage(uri, cache, PLAIN, credentials(tmp_path / "auth", host))
        assert run.code == 0, run.err
        ((path, headers),) = store.seen
    assert path == "/b?Signature=s3cr3t"
    assert "authorization" not in headers
    assert "s3cr3t" not in run.err + run.out


def test_a_store_that_refuses_its_address_is_an_outage_and_not_a_matter_of_credentials(
    cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with (
        registries.running(tmp_path) as registry,
        Elsewhere(status=403) as store,
        registries.in_front(registry, redirecting(f"{store.url}/b?Signature=s3cr3t")) as host,
    ):
        uri = registry.push_files(REPO, {"w.bin": b"w"}).replace(registry.host, host)
        run = rig.stage(uri, cache, PLAIN, "--tries=2")
        assert len(store.seen) == 2
    assert (run.code, "refuses a fresh address" in run.reason) == (20, True), run.err
    assert "s3cr3t" not in run.err


def test_addresses_that_a_layer_names_are_not_asked(
    cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with registries.running(tmp_path) as registry, Elsewhere(b"evil") as other:
        layer = {**registry.push_blob(REPO, b"good"), "urls": [f"{other.url}/evil"]}
        uri = registry.push(REPO, [registries.titled(layer, "w.bin")])
        run = rig.stage(uri, cache, PLAIN)
        assert run.code == 0, run.err
        assert other.seen == []
    assert list(rig.tree(cache).values()) == [b"good"]


def test_a_registry_with_tls_that_wants_credentials_sent_without_is_refused(
    cache: pathlib.Path, tmp_path: pathlib.Path, authority: pathlib.Path
) -> None:
    with (
        registries.with_tokens(tmp_path) as (registry, service),
        gates.tls_before(f"http://{registry.host}", authority) as url,
    ):
        uri = registry.push_files(REPO, {"w.bin": b"w"})
        host = url.removeprefix("https://")
        service.asked.clear()
        option = credentials(tmp_path / "auth", host)
        environ = {"SSL_CERT_FILE": str(authority)}
        run = rig.stage(uri.replace(registry.host, host), cache, option, environ=environ)
        assert service.asked == []
    assert (run.code, "without TLS: refused" in run.reason) == (16, True), run.err


def test_a_token_service_that_redirects_is_not_followed(
    cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with Elsewhere() as thief, Elsewhere(status=302, headers={"Location": thief.url}) as service:
        offer = {"WWW-Authenticate": f'Bearer realm="{service.url}/token"'}
        with Elsewhere(status=401, headers=offer) as registry:
            host = registry.url.removeprefix("http://")
            uri = f"oci://{host}/{REPO}@sha256:{'0' * 64}"
            run = rig.stage(uri, cache, PLAIN, credentials(tmp_path / "auth", host))
        assert [path.partition("?")[0] for path, _ in service.seen] == ["/token"]
        assert thief.seen == []
    assert run.code == 16, run.err
