"""Model source URIs."""

from __future__ import annotations

import re

import pytest

from hooks.api.llmservice import URI_RULES
from hooks.llmservice import sources
from hooks.llmservice.sources import Claim, Hub, ModelScope, Oci

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("uri", "source"),
    [
        ("hf://org/name", Hub("org/name", "")),
        ("huggingface://org/name", Hub("org/name", "")),
        ("hf://org/name@main", Hub("org/name", "main")),
        ("hf://Org-1/na.me_2@refs/pr/1", Hub("Org-1/na.me_2", "refs/pr/1")),
        ("modelscope://org/name", ModelScope("org/name", "")),
        (f"oci://r.example:5000/a/b@{DIGEST}", Oci("r.example:5000/a/b", DIGEST)),
        ("pvc://claim", Claim("claim", "")),
        ("pvc://claim/", Claim("claim", "")),
        ("pvc://my.claim/a/b", Claim("my.claim", "a/b")),
        ("pvc://claim/.hidden", Claim("claim", ".hidden")),
    ],
)
def test_each_kind_of_source_is_read(uri: str, source: sources.Source) -> None:
    assert sources.parse(uri) == source


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "org/name",
        "s3://bucket/key",
        "hf://",
        "hf://name",
        "hf://a/b/c",
        "hf://a/../b",
        "hf://org/name@",
        "hf://org/na me",
        "oci://registry/repo:v1",
        "oci://registry/repo@sha256:short",
        "pvc://",
        "pvc://Claim",
        "pvc://claim/../other",
        "pvc://claim/a/..",
        "pvc://claim/./a",
        "pvc://claim//a",
        "pvc://claim/a\x00b",
        "pvc://claim/a\n",
    ],
)
def test_what_is_no_source_is_quoted(uri: str) -> None:
    with pytest.raises(sources.SourceError, match=re.escape(repr(uri))):
        sources.parse(uri)


def test_every_scheme_has_a_rule_at_admission() -> None:
    for scheme in ("hf", "modelscope", "oci", "pvc"):
        assert any(scheme in rule.rule and scheme in rule.rule for rule in URI_RULES[1:])


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("org/name", "hf://org/name"),
        ("https://huggingface.co/org/name", "hf://org/name"),
        ("hf.co/org/name", "hf://org/name"),
        ("s3://bucket/key", None),
        ("name", None),
    ],
)
def test_a_model_named_as_elsewhere_is_told_how_it_is_named_here(
    uri: str, meant: str | None
) -> None:
    with pytest.raises(sources.SourceError) as refused:
        sources.parse(uri)
    hint = f"; did you mean {meant}?" if meant else "oci:// or pvc://"
    assert str(refused.value).endswith(hint)
