"""What an API server would refuse of the manifests."""

from pathlib import Path

import pytest

from local import manifests
from local.errors import Usage

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "echo"


def load(folder: Path, old: str, new: str) -> manifests.Manifests:
    for name in ("llmservice.yaml", "runtime.yaml"):
        (folder / name).write_text((EXAMPLE / name).read_text().replace(old, new))
    return manifests.load([folder])


@pytest.mark.parametrize(
    "namespace",
    ["a" * 64, "a b", "A", "-a", "a-", "../x", "[a]", "{a: b}", "1", "true", r'"a\n"', "a.b", "é"],
)
def test_a_namespace_that_is_no_label_is_a_mistake(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(Usage, match=r"yaml:\d+: metadata.namespace: found .*, expected lower-case"):
        load(tmp_path, "namespace: default", f"namespace: {namespace}")


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        ("a" * 63, "a" * 63 + "/echo"),
        ('"1"', "1/echo"),
        ("a--1", "a--1/echo"),
        ('""', "default/echo"),
        ("null", "default/echo"),
    ],
)
def test_a_namespace_is_a_label_or_left_out(tmp_path: Path, namespace: str, key: str) -> None:
    known = load(tmp_path, "namespace: default", f"namespace: {namespace}")
    assert manifests.key(known.services[0]) == key


def test_a_kind_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="unknown kind"):
        load(tmp_path, "kind: LLMService", "kind: [LLMService]")
