"""The hooks as the component `tls` runs them: a certificate, and a token for whoever asks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
import requests
import yaml

from tests.process.certificates import Authority, Mounted
from tests.process.hooks.serving import ROOT, Server, free_port, start, wait_until_ready
from tests.pure.hooks import golden
from tests.pure.hooks.world import SETTINGS

pytestmark = pytest.mark.process

COMPONENT = ROOT / "manifests" / "components" / "tls"
TOKEN = "correct-horse-battery-staple"


class Hooks:
    """Hooks with both Secrets mounted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.authority = Authority(folder, "ours")
        self.tls = Mounted(folder, "tls")
        self.tls.write(self.authority.secret("hooks"))
        self.authorization = Mounted(folder, "authorization")
        self.authorization.write({"token": f"{TOKEN}\n".encode()})
        port = free_port()
        self.server = Server(f"https://127.0.0.1:{port}", folder / "log")
        arguments, environment = self._as_shipped()
        self.process = start(port, self.server.log, environment, *arguments)

    def ask(
        self,
        authorization: str | None = f"Bearer {TOKEN}",
        *,
        path: str = "/llmservice/sync",
        trusted: pathlib.Path | None = None,
    ) -> requests.Response:
        return requests.post(
            self.server.url + path,
            json=golden.request("serving-in-full"),
            headers={} if authorization is None else {"Authorization": authorization},
            verify=str(trusted or self.authority.certificate),
            timeout=30,
        )

    def _as_shipped(self) -> tuple[list[str], dict[str, str]]:
        """Arguments and environment of the component's patch, on this test's folders."""
        patch = yaml.safe_load((COMPONENT / "deployment.yaml").read_text())
        (container,) = patch["spec"]["template"]["spec"]["containers"]
        folders = {"tls": self.tls.path, "authorization": self.authorization.path}
        paths = {m["mountPath"]: str(folders[m["name"]]) for m in container["volumeMounts"]}

        def moved(text: str) -> str:
            for inside, outside in paths.items():
                text = text.replace(inside, outside)
            return text

        environment = {one["name"]: moved(one["value"]) for one in container["env"]}
        environment["NOCTAYA_GATEWAY_IMAGE"] = SETTINGS.gateway_image
        return [moved(argument) for argument in container["args"]], environment


@pytest.fixture
def hooks(tmp_path: pathlib.Path) -> Iterator[Hooks]:
    started = Hooks(tmp_path)
    try:
        wait_until_ready(
            started.server.url,
            started.process,
            started.server.log,
            verify=str(started.authority.certificate),
        )
        yield started
    finally:
        started.process.terminate()
        assert started.process.wait(timeout=60) == 0


def test_whoever_shows_the_token_is_answered_and_nobody_else(hooks: Hooks) -> None:
    for right in (f"Bearer {TOKEN}", f"bearer  {TOKEN} "):
        assert hooks.ask(right).status_code == 200
    for wrong in (None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN):
        answer = hooks.ask(wrong)
        assert answer.status_code == 401, wrong
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert list(answer.json()) == ["error"]
        assert TOKEN not in answer.text
    assert TOKEN not in hooks.server.log.read_text()
    assert "'/llmservice/sync' refused: no Authorization header" in hooks.server.log.read_text()


def test_every_path_but_the_probes_wants_the_token(hooks: Hooks) -> None:
    for path in ("/llmservice/customize", "/autoscaling/sync", "/nowhere", "/healthz/../nowhere"):
        assert hooks.ask(None, path=path).status_code == 401
    trusted = str(hooks.authority.certificate)
    for path in ("/healthz", "/readyz"):
        url = hooks.server.url + path
        assert requests.get(url, verify=trusted, timeout=30).status_code == 200


def test_a_new_token_is_in_force_at_once(hooks: Hooks) -> None:
    hooks.authorization.write({"token": b"another"})
    assert hooks.ask().status_code == 401
    assert hooks.ask("Bearer another").status_code == 200


@pytest.mark.parametrize("secret", [{}, {"token": b" \n"}])
def test_without_a_token_of_its_own_it_lets_nobody_in(
    hooks: Hooks, secret: dict[str, bytes]
) -> None:
    hooks.authorization.write(secret)
    for shown in (f"Bearer {TOKEN}", "Bearer ", None):
        answer = hooks.ask(shown)
        assert answer.status_code == 503
        assert "mount a Secret with a token" in answer.json()["error"]


def test_a_renewed_certificate_needs_no_restart(hooks: Hooks, tmp_path: pathlib.Path) -> None:
    fresh = Authority(tmp_path, "fresh")
    hooks.tls.write(fresh.secret("hooks"))
    assert hooks.ask(trusted=fresh.certificate).status_code == 200
    with pytest.raises(requests.exceptions.SSLError):
        hooks.ask()


def test_plain_http_gets_no_answer(hooks: Hooks) -> None:
    url = hooks.server.url.replace("https://", "http://")
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"{url}/readyz", timeout=30)
    assert hooks.ask().status_code == 200
