"""A service that asks for a key, on one machine."""

import openai
import psutil
import pytest
import yaml

from tests.process.local.conftest import Manifests, Start, Up

KEY = "sk-on-this-machine"


def keyed(manifests: Manifests) -> None:
    authentication = {"secretRef": {"name": "clients", "key": "key"}}
    manifests.service["spec"].setdefault("endpoint", {})["authentication"] = authentication


def ask(up: Up, key: str) -> str:
    client = openai.OpenAI(base_url=up.url, api_key=key, max_retries=0, timeout=60)
    message: openai.types.chat.ChatCompletionUserMessageParam = {"role": "user", "content": "Hello"}
    answer = client.chat.completions.create(model="echo", messages=[message])
    return answer.choices[0].message.content or ""


def test_the_key_of_a_secret_among_the_manifests_is_asked_for(
    up: Start, manifests: Manifests
) -> None:
    keyed(manifests)
    folder = manifests.write()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "clients", "namespace": "default"},
        "stringData": {"key": KEY},
    }
    (folder / "secret.yaml").write_text(yaml.safe_dump(secret))
    running = up(folder)
    running.wait_until_it_sleeps()
    with pytest.raises(openai.AuthenticationError):
        ask(running, "another")
    assert running.engines() == []
    assert ask(running, KEY).endswith("Hello")
    [file] = running.temporary.rglob("*.key")
    assert file.stat().st_mode & 0o077 == 0
    assert not any(KEY in " ".join(p.cmdline()) for p in living(running))
    assert KEY not in running.out.read_text() + running.err.read_text()


def test_without_its_secret_a_service_runs_and_says_why_it_answers_503(
    up: Start, manifests: Manifests
) -> None:
    keyed(manifests)
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    with pytest.raises(openai.InternalServerError) as refused:
        ask(running, KEY)
    assert refused.value.code == "authentication_unavailable"
    assert running.engines() == []
    [line] = running.err.read_text().splitlines()
    assert "spec.endpoint.authentication.secretRef: no Secret of the manifests has" in line


def living(up: Up) -> list[psutil.Process]:
    return [process for process in up.tree() if process.status() != psutil.STATUS_ZOMBIE]
