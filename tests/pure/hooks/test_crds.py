"""`crds/` is what the models say, in a form that an API server takes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hooks.api import crds

CRDS = pathlib.Path(__file__).parents[3] / "crds"
BOTH = pytest.mark.parametrize("crd", [crds.llmservices(), crds.inferenceruntimes()])


def schemas(schema: Any) -> Iterator[Any]:
    """Every schema within ``schema``, itself first."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from schemas(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key])


def root(crd: Any) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_files_are_those_of_the_models() -> None:
    assert crds.main(["--check", str(CRDS)]) == 0


def test_a_difference_is_shown_and_counted(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crds.main([str(tmp_path)]) == 0
    assert crds.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "serving.noctaya.io_llmservices.yaml").write_text("old\n")
    assert crds.main(["--check", str(tmp_path)]) == 1
    assert "-old" in capsys.readouterr().out


@BOTH
def test_the_yaml_says_what_the_models_say(crd: Any) -> None:
    assert yaml.safe_load(crds.to_yaml(crd)) == crd


@BOTH
def test_every_field_is_described(crd: Any) -> None:
    """Those of embedded Kubernetes types, of lists' items and of a list itself included."""
    for schema in schemas(root(crd)):
        assert "properties" not in schema or schema["description"]
        for name, field in schema.get("properties", {}).items():
            # What an API server says of metadata itself may not be replaced.
            assert field.get("description") or field == {"type": "object"}, name


@BOTH
def test_a_definition_fits_where_kubectl_apply_remembers_it(crd: Any) -> None:
    """In an annotation of at most 256 KiB; ten times smaller is pleasant to read, too."""
    assert len(json.dumps(crd)) < 100_000


@BOTH
def test_the_schema_is_structural(crd: Any) -> None:
    for schema in schemas(root(crd)):
        assert not {"$ref", "const", "exclusiveMinimum", "title"} & set(schema)
        assert "type" in schema or schema.get("x-kubernetes-int-or-string")


@BOTH
def test_arrays_and_strings_of_the_spec_are_bounded(crd: Any) -> None:
    """The cost of a CEL rule is estimated from the bounds; without them it is refused."""
    for schema in schemas(root(crd)["properties"]["spec"]):
        if schema.get("type") == "array":
            assert "maxItems" in schema
        if schema.get("type") == "string" and "enum" not in schema:
            assert "maxLength" in schema


@BOTH
def test_kubectl_finds_and_shows_it(crd: Any) -> None:
    spec = crd["spec"]
    assert spec["names"]["categories"] == ["noctaya"]
    assert spec["names"]["shortNames"]
    (version,) = spec["versions"]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"]
    status = root(crd)["properties"]["status"]["properties"]
    assert {"observedGeneration", "conditions"} <= set(status)


@BOTH
def test_a_rule_of_the_whole_object_is_for_its_creation_only(crd: Any) -> None:
    """It would refuse the status of an older object, and Metacontroller's finalizer on it."""
    for rule in root(crd).get("x-kubernetes-validations", []):
        assert rule["rule"].startswith("oldSelf.hasValue() || ")
        assert rule["optionalOldSelf"] is True
