"""HTTP/1.1 over the standard library: connections that are kept, redirects, proxies, time limits.

Decides nothing about retries, statuses or hashes; that is `retry` and the sources. What fails
below HTTP is raised as `Transient` or, where another try cannot help, as a `FetchError`.

Secrets travel in their own argument and go to the origin of the first URL only: a redirect to any
other scheme, host or port is followed without them.
"""

import base64
import collections
import collections.abc
import contextlib
import dataclasses
import email.message
import http.client
import os
import socket
import ssl
import threading
import time
import typing
import urllib.parse
import urllib.request

import fetcher
from fetcher import errors, uris

CONNECT_SECONDS = 10.0
# A listing or a token is small: one that takes longer than so many idle times comes by drips.
_WHOLE_BODY_IDLE_TIMES = 2
_READ_BYTES = 256 * 1024
# How many hops a download may take; hubs need two (resolve, CDN).
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Bundles that users of requests and curl have set; OpenSSL itself reads SSL_CERT_FILE and _DIR.
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_Origin = tuple[str, str, int]


def origin(url: str) -> _Origin:
    """Scheme, host and port; the unit that a secret belongs to."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError as e:
        raise errors.BadRemote(f"{uris.without_secrets(url)} has no usable port") from e
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise errors.BadRemote(f"{uris.without_secrets(url)} is not an http or https address")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


class Answer:
    """One response, to be read to its end or closed. Not shared between threads."""

    def __init__(
        self,
        url: str,
        raw: http.client.HTTPResponse,
        give_back: collections.abc.Callable[[bool], None],
        *,
        idle_seconds: float,
    ) -> None:
        self.url = url
        self.status = raw.status
        self.headers: email.message.Message = raw.headers
        self._raw = raw
        self._give_back = give_back
        self._idle_seconds = idle_seconds

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Only a connection whose answer was read to the end can carry another request.
        clean = self._raw.isclosed() and not self._raw.length and not self._raw.will_close
        self._raw.close()
        self._give_back(clean)

    def readinto(self, view: memoryview) -> int:
        """Read some bytes, 0 at the end; a cut or silent connection is `Transient`."""
        with _network(self.url):
            return self._raw.readinto(view)

    def read(self, limit: int) -> bytes:
        """The whole body, which may have at most `limit` bytes and must come in bounded time."""
        shown = uris.without_secrets(self.url)
        deadline = time.monotonic() + _WHOLE_BODY_IDLE_TIMES * self._idle_seconds
        body = bytearray()
        with _network(self.url):
            while block := self._raw.read1(_READ_BYTES):
                body += block
                if len(body) > limit:
                    raise errors.BadRemote(f"{shown} answered more than {limit} bytes")
                if time.monotonic() > deadline:
                    raise errors.Transient(f"{shown} hardly sends any more", stalled=True)
            if self._raw.length:
                raise errors.Transient(f"{shown} was cut short")
        return bytes(body)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Route:
    """Where the connection for an origin really goes."""

    target: _Origin
    proxy: _Origin | None
    proxy_secret: str | None


class Client:
    """Opens URLs for any number of threads. `abort` ends everything that is under way."""

    def __init__(self, *, idle_seconds: float, environ: collections.abc.Mapping[str, str]) -> None:
        self._idle_seconds = idle_seconds
        self._environ = environ
        self._lock = threading.Lock()
        self._spare: dict[_Route, list[http.client.HTTPConnection]] = collections.defaultdict(list)
        self._busy: set[http.client.HTTPConnection] = set()
        self._aborted = False
        self._tls: ssl.SSLContext | None = None

    def open(
        self,
        url: str,
        *,
        headers: collections.abc.Mapping[str, str] | None = None,
        secrets: collections.abc.Mapping[str, str] | None = None,
        form: collections.abc.Mapping[str, str] | None = None,
        follow: bool = True,
    ) -> Answer:
        """GET a URL, or POST a form to it. `secrets` are headers for its own origin only."""
        home = origin(url)
        common = {
            "User-Agent": f"noctaya-fetch/{fetcher.VERSION}",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        for _ in range(_MAX_REDIRECTS + 1):
            sent = {**common, **(secrets or {})} if origin(url) == home else common
            answer = self._send(url, sent, form)
            if answer.status not in _REDIRECTS or not follow:
                return answer
            with answer:
                url = _redirected(answer)
        raise errors.BadRemote(f"{uris.without_secrets(url)} redirects without end")

    def abort(self) -> None:
        """Cut every connection, so that threads that wait for bytes wake up and end."""
        with self._lock:
            self._aborted = True
            for connection in self._busy:
                if (sock := connection.sock) is not None:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    def _send(
        self,
        url: str,
        headers: collections.abc.Mapping[str, str],
        form: collections.abc.Mapping[str, str] | None,
    ) -> Answer:
        route = self._route(url)
        connection, kept = self._take(route)
        try:
            raw = self._exchange(connection, url, route, headers, form)
        except (http.client.RemoteDisconnected, ConnectionError, errors.Transient):
            self._drop(connection)
            if not kept:
                raise
            # The server closed a connection that had been idle; that says nothing about it.
            connection = self._connect(route)
            try:
                raw = self._exchange(connection, url, route, headers, form)
            except BaseException:
                self._drop(connection)
                raise
        except BaseException:
            self._drop(connection)
            raise

        def give_back(clean: bool) -> None:
            self._give_back(route, connection, clean)

        return Answer(url, raw, give_back, idle_seconds=self._idle_seconds)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        route: _Route,
        headers: collections.abc.Mapping[str, str],
        form: collections.abc.Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        parts = urllib.parse.urlsplit(url)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        sent = dict(headers)
        if route.proxy is not None and parts.scheme == "http":
            target = urllib.parse.urlunsplit(
                (parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", parts.query, "")
            )
            if route.proxy_secret is not None:
                sent["Proxy-Authorization"] = route.proxy_secret
        with _network(url):
            if form is None:
                connection.request("GET", target, headers=sent)
            else:
                sent["Content-Type"] = "application/x-www-form-urlencoded"
                body = urllib.parse.urlencode(form).encode()
                connection.request("POST", target, body=body, headers=sent)
            return connection.getresponse()

    def _route(self, url: str) -> _Route:
        target = origin(url)
        proxy = _proxy_for(target, self._environ)
        if proxy is None:
            return _Route(target=target, proxy=None, proxy_secret=None)
        proxy_origin = origin(proxy)
        if proxy_origin[0] != "http":
            raise errors.Usage(f"{uris.without_secrets(proxy)}: only http:// proxies are supported")
        return _Route(target=target, proxy=proxy_origin, proxy_secret=_basic_of(proxy))

    def _take(self, route: _Route) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            spare = self._spare[route]
            if spare:
                connection = spare.pop()
                self._busy.add(connection)
                return connection, True
        return self._connect(route), False

    def _connect(self, route: _Route) -> http.client.HTTPConnection:
        scheme, host, port = route.target
        via = route.proxy or route.target
        connection: http.client.HTTPConnection
        if scheme == "https":
            connection = http.client.HTTPSConnection(
                via[1], via[2], timeout=CONNECT_SECONDS, context=self._context()
            )
            if route.proxy is not None:
                secret = {"Proxy-Authorization": route.proxy_secret} if route.proxy_secret else {}
                connection.set_tunnel(host, port, headers=secret)
        else:
            connection = http.client.HTTPConnection(via[1], via[2], timeout=CONNECT_SECONDS)
        with _network(f"{scheme}://{host}:{port}/"):
            connection.connect()
            connection.sock.settimeout(self._idle_seconds)
        with self._lock:
            if not self._aborted:
                self._busy.add(connection)
                return connection
        connection.close()
        raise errors.Transient("the run is ending")

    def _give_back(
        self, route: _Route, connection: http.client.HTTPConnection, clean: bool
    ) -> None:
        with self._lock:
            self._busy.discard(connection)
            if clean and not self._aborted:
                self._spare[route].append(connection)
                return
        connection.close()

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.close()

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = ssl.create_default_context()
                for name in _CA_VARIABLES:
                    if bundle := self._environ.get(name):
                        _trust(self._tls, name, bundle)
            return self._tls


def _trust(context: ssl.SSLContext, variable: str, bundle: str) -> None:
    try:
        if os.path.isdir(bundle):
            context.load_verify_locations(capath=bundle)
        else:
            context.load_verify_locations(cafile=bundle)
    except OSError as e:
        raise errors.Usage(f"{variable}={bundle} is not a readable CA bundle: {e}") from e


def _redirected(answer: Answer) -> str:
    location = answer.headers.get("Location")
    shown = uris.without_secrets(answer.url)
    if not location:
        raise errors.BadRemote(f"{shown} redirects to nowhere ({answer.status} without Location)")
    target = urllib.parse.urljoin(answer.url, location)
    if origin(answer.url)[0] == "https" and origin(target)[0] != "https":
        raise errors.BadRemote(f"{shown} redirects from https to http: refused")
    return target


def _proxy_for(target: _Origin, environ: collections.abc.Mapping[str, str]) -> str | None:
    scheme, host, port = target
    proxies = {
        name.lower().removesuffix("_proxy"): value
        for name, value in sorted(environ.items())  # Lower case sorts last and wins, as in curl.
        if name.lower().endswith("_proxy") and value
    }
    # A CGI server sets HTTP_PROXY from a request's header; urllib guards against it, and so does
    # this: nothing here runs as CGI.
    if urllib.request.proxy_bypass_environment(f"{host}:{port}", proxies):  # type: ignore[attr-defined]
        return None
    found = proxies.get(scheme) or proxies.get("all")
    if found is None:
        return None
    return found if "://" in found else f"http://{found}"


def _basic_of(url: str) -> str | None:
    parts = urllib.parse.urlsplit(url)
    if parts.username is None:
        return None
    user = urllib.parse.unquote(parts.username)
    return basic(user, urllib.parse.unquote(parts.password or ""))


def basic(user: str, password: str) -> str:
    """The value of a Basic Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


@contextlib.contextmanager
def _network(url: str) -> collections.abc.Iterator[None]:
    """Name what the network does wrong. Only network calls go inside."""
    shown = uris.without_secrets(url)
    try:
        yield
    except TimeoutError as e:
        raise errors.Transient(f"{shown} is silent", stalled=True) from e
    except ssl.SSLCertVerificationError as e:
        raise errors.BadRemote(
            f"{shown} shows a certificate that is not trusted ({e.verify_message}): "
            "set SSL_CERT_FILE to its CA bundle"
        ) from e
    except socket.gaierror as e:
        if e.errno == socket.EAI_NONAME:
            raise errors.BadRemote(f"{shown}: there is no such host: check the name") from e
        raise errors.Transient(f"{shown} cannot be looked up: {e.strerror}") from e
    except ssl.SSLError as e:
        raise errors.Transient(f"{shown} does not speak TLS as expected: {e.reason}") from e
    except http.client.HTTPException as e:
        raise errors.Transient(f"{shown} broke off its answer ({type(e).__name__})") from e
    except OSError as e:
        # http.client's only word for a proxy that answers CONNECT with an error.
        if "Tunnel connection failed: 4" in str(e):
            raise errors.BadRemote(f"{shown}: the proxy refuses to connect there: {e}") from e
        raise errors.Transient(f"{shown} cannot be reached: {e.strerror or e}") from e
