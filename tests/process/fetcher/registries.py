"""Debian's docker-registry on loopback, and a token service of our own beside it."""

import base64
import collections.abc
import contextlib
import dataclasses
import datetime
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import typing
import urllib.parse

import jwt
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.process.fetcher import serving

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
USER, PASSWORD = "puller", "p:ss word"
_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registry:
    """A running registry. `session` may push to it whatever its clients need to show."""

    host: str
    root: pathlib.Path
    session: requests.Session

    def push_blob(self, repository: str, content: bytes) -> dict[str, typing.Any]:
        """Push a blob and return its descriptor."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"http://{self.host}/v2/{repository}/blobs/uploads/"
        started = self.session.post(url)
        started.raise_for_status()
        upload = urllib.parse.urljoin(url, started.headers["Location"])
        joint = "&" if "?" in upload else "?"
        self.session.put(f"{upload}{joint}digest={digest}", data=content).raise_for_status()
        kind = "application/vnd.oci.image.layer.v1.tar"
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def push_manifest(self, repository: str, manifest: object, kind: str = MANIFEST) -> str:
        """Push a manifest and return its digest."""
        body = json.dumps(manifest).encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        url = f"http://{self.host}/v2/{repository}/manifests/{digest}"
        answer = self.session.put(url, data=body, headers={"Content-Type": kind})
        assert answer.status_code == 201, answer.text
        return digest

    def push(self, repository: str, layers: list[dict[str, typing.Any]]) -> str:
        """Push an artifact of these layers and return its URI."""
        config = {
            **self.push_blob(repository, b"{}"),
            "mediaType": "application/vnd.oci.empty.v1+json",
        }
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        return self.uri(repository, self.push_manifest(repository, manifest))

    def push_files(self, repository: str, files: dict[str, bytes]) -> str:
        """Push titled files, as `oras push` does."""
        return self.push(
            repository, [titled(self.push_blob(repository, c), name) for name, c in files.items()]
        )

    def uri(self, repository: str, digest: str) -> str:
        return f"oci://{self.host}/{repository}@{digest}"

    def blob_path(self, digest: str) -> pathlib.Path:
        """Where the registry keeps a blob on its disk."""
        hexed = digest.removeprefix("sha256:")
        return self.root / f"docker/registry/v2/blobs/sha256/{hexed[:2]}/{hexed}/data"


def titled(
    layer: dict[str, typing.Any], title: object, **more: typing.Any
) -> dict[str, typing.Any]:
    """A layer with ORAS's title annotation."""
    return {**layer, "annotations": {"org.opencontainers.image.title": title, **more}}


@contextlib.contextmanager
def running(
    folder: pathlib.Path, auth: dict[str, typing.Any] | None = None
) -> collections.abc.Iterator[Registry]:
    """Run docker-registry with an `auth` section of its configuration."""
    _need("docker-registry")
    port = free_port()
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "root")}},
        "http": {"addr": f"127.0.0.1:{port}"},
        # Layers that name addresses of their own are taken, as other registries do.
        "validation": {"manifests": {"urls": {"allow": [".*"]}}},
        **({"auth": auth} if auth else {}),
    }
    (folder / "config.json").write_text(json.dumps(config))  # JSON is YAML.
    command = ["docker-registry", "serve", str(folder / "config.json")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, process)
        yield Registry(host=f"127.0.0.1:{port}", root=folder / "root", session=requests.Session())
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def with_basic(folder: pathlib.Path) -> collections.abc.Iterator[Registry]:
    """A registry that wants a user and a password."""
    _need("htpasswd")
    users = subprocess.run(
        ["htpasswd", "-nbB", USER, PASSWORD], capture_output=True, check=True, text=True
    ).stdout
    (folder / "htpasswd").write_text(users)
    auth = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    with running(folder, auth) as registry:
        registry.session.auth = (USER, PASSWORD)
        yield registry


class TokenService(serving.Serving):
    """Issues JWTs that docker-registry accepts, to whoever shows the right secret."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.seconds = 300.0
        self.identity_token = "identity-" + "x" * 20
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._certify()
        self.bundle = folder / "bundle.pem"
        self.bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        super().__init__(server)
        self.realm = f"http://127.0.0.1:{server.server_port}/token"

    @property
    def auth(self) -> dict[str, typing.Any]:
        """The registry's configuration for this service."""
        return {
            "token": {
                "realm": self.realm,
                "service": "test-registry",
                "issuer": "test-issuer",
                "rootcertbundle": str(self.bundle),
            }
        }

    def token(self, scope: str, seconds: float) -> str:
        kind, name, actions = scope.rsplit(":", 2) if scope else ("", "", "")
        now = time.time()
        access = [{"type": kind, "name": name, "actions": actions.split(",")}] if scope else []
        body = {
            "iss": "test-issuer", "sub": USER, "aud": "test-registry", "jti": str(now),
            "iat": int(now), "nbf": int(now) - 1, "exp": int(now + seconds), "access": access,
        }  # fmt: skip
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        headers = {"x5c": [base64.b64encode(der).decode()]}
        return jwt.encode(body, self._key, algorithm="ES256", headers=headers)

    def _certify(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-issuer")])
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
                right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                self._answer("GET", query, self.headers.get("Authorization") == right)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
                self._answer("POST", form, form.get("refresh_token") == service.identity_token)

            def _answer(self, method: str, said: dict[str, str], right: bool) -> None:
                service.asked.append((method, said, dict(self.headers)))
                token = service.token(said.get("scope", ""), service.seconds)
                field = "token" if method == "GET" else "access_token"
                body = json.dumps({field: token}).encode()
                self.send_response(200 if right else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler


@contextlib.contextmanager
def with_tokens(folder: pathlib.Path) -> collections.abc.Iterator[tuple[Registry, TokenService]]:
    """A registry that sends its clients to a token service."""
    with TokenService(folder) as service, running(folder, service.auth) as registry:
        registry.session.auth = _Pusher(service)
        yield registry, service


class _Pusher(requests.auth.AuthBase):
    """May do anything in the repository that a URL names."""

    def __init__(self, service: TokenService) -> None:
        self._service = service

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        path = urllib.parse.urlsplit(str(request.url)).path.removeprefix("/v2/")
        repository = path.partition("/blobs/")[0].partition("/manifests/")[0]
        token = self._service.token(f"repository:{repository}:pull,push", 300)
        request.headers["Authorization"] = f"Bearer {token}"
        return request


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("docker-registry does not listen: is it installed?")


@contextlib.contextmanager
def in_front(
    registry: Registry,
    on_blob: collections.abc.Callable[[http.server.BaseHTTPRequestHandler], bool],
) -> collections.abc.Iterator[str]:
    """A proxy before a registry; `on_blob` may answer a request for a blob itself (True), or have
    it passed on. Yields its host."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if "/blobs/" in self.path and on_blob(self):
                return
            sent = {k: v for k, v in self.headers.items() if k.lower() != "host"}
            answer = requests.get(f"http://{registry.host}{self.path}", headers=sent)
            self.send_response(answer.status_code)
            for name in ("Content-Type", "WWW-Authenticate", "Docker-Content-Digest"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving.Serving(server):
        yield f"127.0.0.1:{server.server_port}"


def _need(program: str) -> None:
    """Skip where a person has not installed a program; CI, where nothing may be missing, fails."""
    if shutil.which(program) is None and not os.environ.get("NOCTAYA_REQUIRE_CLUSTER"):
        pytest.skip(f"{program} is missing: see tests/cluster/install-packages")
