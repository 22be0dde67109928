"""`docs/deviations.md` holds what the code does, where a program can tell."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re

import pytest
import yaml

from hooks.api import GROUP
from hooks.autoscaling import render as autoscaling
from hooks.llmservice import names, resolve
from tests.pure.hooks.world import World, example, merged, service

TEXT = (pathlib.Path(__file__).parents[3] / "docs" / "deviations.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = re.split(r"^## ", TEXT.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


NOT_IMPLEMENTED = rows("Accepted and not implemented")


@pytest.mark.parametrize(("kind", "field", "setting"), NOT_IMPLEMENTED)
def test_what_is_not_implemented_is_answered_by_its_name(
    kind: str, field: str, setting: str
) -> None:
    parent, runtime, value = service(), example("runtime"), yaml.safe_load(setting.strip("`"))
    if field.startswith("annotation"):
        parent["metadata"]["annotations"] = {names.GATEWAY_REPLICAS: str(value)}
    elif kind == "InferenceRuntime":
        runtime["spec"] = merged(runtime["spec"], value)
    elif "model" in value:
        parent["spec"] |= value  # A model has one source.
    else:
        parent["spec"] = merged(parent["spec"], value)
    world = World(parent, runtime)
    world.settle()
    assert world.ready()[2] == "NotImplemented"
    named = re.findall("`([^`]*)`", field)[0]
    assert named in world.condition("Ready")["message"]


def test_every_field_that_is_not_implemented_is_listed() -> None:
    """The code's own list: the keys of one dict, and a message for each of the others."""
    tree = ast.parse(inspect.getsource(resolve))
    told = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.match(r"spec\.[a-z]\S*[a-zA-Z](: |$)", node.value)
        and "uri" not in node.value
    ]
    assert len(told) >= 4
    fields = [re.findall("`([^`]*)`", field)[0] for _, field, _ in NOT_IMPLEMENTED]
    for field in told:
        assert any(listed.startswith(field) for listed in fields), field


def test_every_annotation_is_listed() -> None:
    known = {
        value
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(f"{GROUP}/") and value != names.LABEL_SERVICE
    }
    known |= {names.VOLCANO_QUEUE, autoscaling.PAUSED_SCALE_OUT}
    listed = {name for row in rows("Annotations") for name in re.findall("`([^`]*/[^`]*)`", row[1])}
    assert {name for name in listed if not name.startswith("prometheus.io/")} == known
