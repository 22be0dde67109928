"""Secrets among the manifests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from local import manifests, secrets
from local.errors import Usage

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "echo"


def load(folder: Path, secret: str) -> manifests.Manifests:
    (folder / "secret.yaml").write_text(secret)
    return manifests.load([EXAMPLE, folder])


def secret(values: str, head: str = "apiVersion: v1") -> str:
    return f"{head}\nkind: Secret\nmetadata: {{name: clients}}\n{values}\n"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("stringData: {key: hunter2}", b"hunter2"),
        ("data: {key: aHVudGVyMg==}", b"hunter2"),
        ("data: {key: 'aHVu\n\n  dGVyMg=='}", b"hunter2"),
        ("data: {key: aHVudGVyMg==}\nstringData: {key: newer}", b"newer"),
        ("data: {other: aHVudGVyMg==}", None),
        ("type: Opaque", None),
    ],
)
def test_a_value_is_what_a_cluster_would_mount(
    tmp_path: Path, values: str, expected: bytes | None
) -> None:
    [found] = load(tmp_path, secret(values)).secrets
    assert manifests.key(found) == "default/clients"
    assert secrets.value(found, "key") == expected


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (secret("data: {key: hunter2!}"), r":4: data.key: not base64; stringData takes"),
        (secret("data: {key: 1234}"), r":4: data.key: expected text: quote numbers"),
        (secret("stringData: {key: true}"), r":4: stringData.key: expected text"),
        (secret("data: [x]"), r":4: data: expected a value for each key"),
        (secret("stringdata: {key: x}"), r":4: stringdata: unknown field.*stringData"),
        (secret("type: Opaque", "apiVersion: v2"), r":1: apiVersion: found 'v2', expected v1"),
        (secret("metadata: {}").replace("metadata: {name: clients}\n", ""), "name: is required"),
    ],
)
def test_what_an_api_server_would_refuse_is_a_mistake(
    tmp_path: Path, text: str, mistake: str
) -> None:
    with pytest.raises(Usage, match=mistake) as refused:
        load(tmp_path, text)
    assert not re.search("hunter2|1234", str(refused.value))


def test_a_secret_given_twice_is_a_mistake(tmp_path: Path) -> None:
    text = secret("type: Opaque")
    with pytest.raises(Usage, match=r"Secret default/clients stands in .* already"):
        load(tmp_path, f"{text}---\n{text}")
