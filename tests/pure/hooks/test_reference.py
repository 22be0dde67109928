"""`docs/reference.md` has a row for every field of the CRDs, and names tests that exist."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hooks.api import crds
from tests.pure.hooks import test_fields

ROOT = pathlib.Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "reference.md").read_text()

CRDS = {"LLMService": crds.llmservices(), "InferenceRuntime": crds.inferenceruntimes()}
EACH_KIND = pytest.mark.parametrize("kind", CRDS)


def rows(kind: str) -> dict[str, list[str]]:
    """Field -> tests, of the table below the kind's heading."""
    section = TEXT.partition(f"## {kind}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return {field: re.findall("`([^`]+)`", tests) for field, tests in found}


def leaves(schema: Any, path: str) -> Iterator[str]:
    """The fields that hold a value; a list is one."""
    if "properties" in schema:
        for name, field in schema["properties"].items():
            yield from leaves(field, f"{path}.{name}")
    else:
        yield path


def fields(kind: str) -> set[str]:
    root = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return {leaf for part in ("spec", "status") for leaf in leaves(root[part], part)}


@EACH_KIND
def test_every_field_has_a_row(kind: str) -> None:
    """One row may stand for all fields of an embedded Kubernetes type, like a probe."""
    without = {
        field
        for field in fields(kind)
        if not any(field == row or field.startswith(f"{row}.") for row in rows(kind))
    }
    assert not without


@EACH_KIND
def test_every_row_is_a_field(kind: str) -> None:
    known = fields(kind)
    for row in rows(kind):
        assert any(field == row or field.startswith(f"{row}.") for field in known), row


@EACH_KIND
def test_every_row_names_tests_that_exist(kind: str) -> None:
    for row, tests in rows(kind).items():
        assert tests, row
        for test in tests:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / file).read_text())
            defined = {
                node.name
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert name in defined, test


@pytest.mark.parametrize(
    ("kind", "name", "cases"),
    [
        ("LLMService", "test_a_field_of_a_service_arrives", test_fields.SERVICE),
        ("InferenceRuntime", "test_a_field_of_a_runtime_arrives", test_fields.RUNTIME),
    ],
)
def test_a_test_of_many_fields_has_a_case_for_each(kind: str, name: str, cases: Any) -> None:
    claimed = {
        row for row, tests in rows(kind).items() if any(test.endswith(name) for test in tests)
    }
    assert claimed == set(cases)
