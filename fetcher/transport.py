"""HTTP over urllib3: redirects, proxies, time limits, and an end to everything at once.

Decides nothing about retries, statuses or hashes; that is `retry` and the sources. What fails
below HTTP is raised as `Transient` or, where another try cannot help, as a `FetchError`.

Secrets travel in their own argument and go to the origin of the first URL only: a redirect to any
other scheme, host or port is followed without them.
"""

import base64
import collections.abc
import contextlib
import os
import socket
import ssl
import threading
import time
import typing
import urllib.parse
import urllib.request
import weakref

import urllib3

import fetcher
from fetcher import errors, uris

CONNECT_SECONDS = 10.0
# A listing or a token is small: one that takes longer than so many idle times comes by drips.
_WHOLE_BODY_IDLE_TIMES = 2
_READ_BYTES = 256 * 1024
# How many hops a download may take; hubs need two (resolve, CDN).
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Connections that are kept for each origin; those beyond it are closed after use.
_KEPT = 32
# Bundles that users of requests and curl have set; OpenSSL itself reads SSL_CERT_FILE and _DIR.
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_Origin = tuple[str, str, int]


def origin(url: str) -> _Origin:
    """Scheme, host and port; the unit that a secret belongs to."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as e:
        raise errors.BadRemote(f"{uris.without_secrets(url)} has no usable host or port") from e
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise errors.BadRemote(f"{uris.without_secrets(url)} is not an http or https address")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def joined(base: str, target: str) -> str:
    """The address that a remote's word means, which may be relative to where it was said."""
    try:
        return urllib.parse.urljoin(base, target)
    except ValueError as e:
        shown = uris.without_secrets(base)
        raise errors.BadRemote(f"{shown} leads to an address that cannot be read") from e


class Answer:
    """One response, to be read to its end or closed. Not shared between threads."""

    def __init__(self, url: str, raw: urllib3.BaseHTTPResponse, *, idle_seconds: float) -> None:
        self.url = url
        self.status = raw.status
        self.headers = raw.headers
        self._raw = raw
        self._idle_seconds = idle_seconds

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A connection whose answer was read to the end is kept, by urllib3; with nothing left to
        # read, the end is not seen until somebody asks.
        if self._raw.length_remaining == 0:
            self._raw.drain_conn()
        self._raw.close()

    @property
    def content_type(self) -> str:
        """The kind of the body in lower case, without parameters; empty where none is said."""
        return (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()

    def read_some(self, most: int) -> bytes:
        """What has arrived, empty at the end; a cut or silent connection is `Transient`."""
        with _network(self.url):
            return self._raw.read1(most)

    def read(self, limit: int) -> bytes:
        """The whole body, which may have at most `limit` bytes and must come in bounded time."""
        shown = uris.without_secrets(self.url)
        deadline = time.monotonic() + _WHOLE_BODY_IDLE_TIMES * self._idle_seconds
        body = bytearray()
        while block := self.read_some(_READ_BYTES):
            body += block
            if len(body) > limit:
                raise errors.BadRemote(f"{shown} answered more than {limit} bytes")
            if time.monotonic() > deadline:
                raise errors.Transient(f"{shown} hardly sends any more", stalled=True)
        return bytes(body)


def _pools(
    begin: collections.abc.Callable[[urllib3.connection.HTTPConnection], None],
) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """urllib3's pools by scheme, whose connections are shown to `begin` once they stand."""

    class Plain(urllib3.connection.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            begin(self)

    class Secure(urllib3.connection.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            begin(self)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class Client:
    """Opens URLs for any number of threads. `abort` ends everything that is under way."""

    def __init__(self, *, idle_seconds: float, environ: collections.abc.Mapping[str, str]) -> None:
        self._idle_seconds = idle_seconds
        self._environ = environ
        self._timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=idle_seconds)
        self._pools = _pools(self._begin)
        self._lock = threading.Lock()
        self._aborted = False
        self._connections: weakref.WeakSet[urllib3.connection.HTTPConnection] = weakref.WeakSet()
        self._managers: dict[tuple[str, str | None], urllib3.PoolManager] = {}

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
            for connection in self._connections:
                if (sock := connection.sock) is not None:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    def _begin(self, connection: urllib3.connection.HTTPConnection) -> None:
        with self._lock:
            if self._aborted:
                raise errors.Transient("the run is ending")
            self._connections.add(connection)

    def _send(
        self,
        url: str,
        headers: dict[str, str],
        form: collections.abc.Mapping[str, str] | None,
    ) -> Answer:
        with _network(url):
            try:
                raw = self._request(url, headers, form)
            except urllib3.exceptions.ProtocolError:
                # Most often a connection that had been idle and that the server closed, which
                # says nothing about it.
                raw = self._request(url, headers, form)
        return Answer(url, raw, idle_seconds=self._idle_seconds)

    def _request(
        self,
        url: str,
        headers: dict[str, str],
        form: collections.abc.Mapping[str, str] | None,
    ) -> urllib3.BaseHTTPResponse:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        target = urllib.parse.urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
        if form is not None:
            headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        return self._manager(url).request(
            "GET" if form is None else "POST",
            target,
            body=None if form is None else urllib.parse.urlencode(form),
            headers=headers,
            timeout=self._timeout,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

    def _manager(self, url: str) -> urllib3.PoolManager:
        """urllib3's connections to where a URL leads, straight or through a proxy."""
        target = origin(url)
        key = target[0], _proxy_for(target, self._environ)
        with self._lock:
            if key not in self._managers:
                self._managers[key] = self._new_manager(*key)
            return self._managers[key]

    def _new_manager(self, scheme: str, proxy: str | None) -> urllib3.PoolManager:
        # Reading all authorities takes a while: not where no connection is secure.
        context = self._context() if scheme == "https" else None
        manager: urllib3.PoolManager
        if proxy is None:
            manager = urllib3.PoolManager(maxsize=_KEPT, ssl_context=context)
        else:
            proxy_scheme, host, port = origin(proxy)
            if proxy_scheme != "http":
                shown = uris.without_secrets(proxy)
                raise errors.Usage(f"{shown}: only http:// proxies are supported")
            secret = _basic_of(proxy)
            manager = urllib3.ProxyManager(
                f"http://{f'[{host}]' if ':' in host else host}:{port}",
                proxy_headers={"Proxy-Authorization": secret} if secret else None,
                maxsize=_KEPT,
                ssl_context=context,
            )
        manager.pool_classes_by_scheme = self._pools
        return manager

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        for name in _CA_VARIABLES:
            if bundle := self._environ.get(name):
                _trust(context, name, bundle)
        return context


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
    target = joined(answer.url, location)
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
    try:
        yield
    except urllib3.exceptions.HTTPError as e:
        raise _named(uris.without_secrets(url), e) from e


def _named(shown: str, error: BaseException) -> errors.FetchError | errors.Transient:
    cause = _first_cause(error)
    match cause:
        case ssl.SSLCertVerificationError():
            return errors.BadRemote(
                f"{shown} shows a certificate that is not trusted ({cause.verify_message}): "
                "set SSL_CERT_FILE to its CA bundle"
            )
        # OpenSSL's word for a first record that is none, most often plain HTTP.
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return errors.BadRemote(
                f"{shown} does not speak TLS: if it serves plain HTTP, give --plain-http for a "
                "registry, or an http:// address for a hub"
            )
        case socket.gaierror(errno=socket.EAI_NONAME):
            return errors.BadRemote(f"{shown}: there is no such host: check the name")
        case socket.gaierror():
            return errors.Transient(f"{shown} cannot be looked up: {cause.strerror}")
        case TimeoutError() | urllib3.exceptions.TimeoutError():
            return errors.Transient(f"{shown} is silent", stalled=True)
        case ssl.SSLError():
            return errors.Transient(f"{shown} does not speak TLS as expected: {cause.reason}")
        case urllib3.exceptions.LocationValueError():
            return errors.BadRemote(f"{shown} is not an address")
        # http.client's only word for a proxy that answers CONNECT with an error.
        case OSError() if "Tunnel connection failed: 4" in str(cause):
            return errors.BadRemote(f"{shown}: the proxy refuses to connect there: {cause}")
        case OSError():
            return errors.Transient(f"{shown} cannot be reached: {cause.strerror or cause}")
        case _:
            return errors.Transient(f"{shown} broke off its answer ({type(cause).__name__})")


def _first_cause(error: BaseException) -> BaseException:
    """What urllib3 wrapped, in an argument or as the cause."""
    inner = next((part for part in error.args if isinstance(part, Exception)), error.__cause__)
    return error if inner is None else _first_cause(inner)
