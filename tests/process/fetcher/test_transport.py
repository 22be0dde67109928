"""TLS with private authorities, proxies, redirects between schemes, and connections that died."""

import http.server
import pathlib
import typing

import pytest

from tests.process.fetcher import gates, localhub, models, rig

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


def plain_files(hub: localhub.LocalHub) -> None:
    """No CDN: everything comes from the hub's own address."""
    hub.repos["org/m"].lfs_suffixes = ("never",)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_private_authority_is_trusted_when_its_bundle_is_named(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path, variable: str
) -> None:
    plain_files(hub)
    with gates.tls_before(hub.url, authority) as url:
        environ = {"HF_ENDPOINT": url, variable: str(authority)}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert run.code == 0, run.err
    assert rig.run("verify", str(cache)).code == 0


def test_an_unknown_authority_fails_at_once_in_words(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with gates.tls_before(hub.url, authority) as url:
        run = rig.stage("hf://org/m", cache, environ={"HF_ENDPOINT": url})
    assert (run.code, "set SSL_CERT_FILE" in run.reason) == (16, True), run.err
    assert hub.seen == []


def test_a_server_without_tls_is_named_at_once(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    environ = {"HF_ENDPOINT": hub.url.replace("http:", "https:")}
    run = rig.run("plan", "hf://org/m", f"--cache={cache}", environ=environ)
    assert (run.code, "does not speak TLS" in run.reason) == (16, True), run.err
    assert "http:// address" in run.reason
    assert "tries" not in run.err


def test_a_bundle_that_is_not_there_is_a_mistake_in_words(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with gates.tls_before(hub.url, authority) as url:
        environ = {"HF_ENDPOINT": url, "REQUESTS_CA_BUNDLE": "/absent"}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert (run.code, "REQUESTS_CA_BUNDLE=/absent" in run.reason) == (2, True), run.err


def test_a_redirect_from_https_to_http_is_refused(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    with gates.tls_before(hub.url, authority) as url:
        environ = {"HF_ENDPOINT": url, "SSL_CERT_FILE": str(authority)}
        run = rig.stage("hf://org/m", cache, environ=environ)
    assert (run.code, "redirects from https to http" in run.reason) == (16, True), run.err
    assert hub.asked("cdn") == []


def test_proxies_are_used_for_both_schemes_and_no_proxy_is_obeyed(
    hub: localhub.LocalHub, cache: pathlib.Path, authority: pathlib.Path
) -> None:
    plain_files(hub)
    with gates.Gate(None, None, "Basic dXNlcjpwYSBzcw==") as proxy:
        address = f"http://user:pa%20ss@127.0.0.1:{proxy.port}"
        run = rig.stage("hf://org/m", cache, environ=hub.environ(http_proxy=address))
        assert run.code == 0, run.err
        assert all(line.startswith("GET http://127.0.0.1:") for line in proxy.lines)
        proxy.lines.clear()
        with gates.tls_before(hub.url, authority) as url:
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
        with gates.tls_before(hub.url, authority) as url:
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
