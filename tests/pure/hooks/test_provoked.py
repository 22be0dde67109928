"""Every reason that a status can give is provoked by a scenario on the cluster."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

from hooks.llmservice.reasons import Reason

SCENARIOS = pathlib.Path(__file__).parents[2] / "cluster" / "scenarios"


def _texts() -> Iterator[str]:
    """Every string of the scenarios' code."""
    for file in sorted(SCENARIOS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


TEXTS = frozenset(_texts())


@pytest.mark.parametrize("reason", Reason)
def test_a_scenario_provokes_each_reason(reason: Reason) -> None:
    assert reason.value in TEXTS, (
        f"no scenario in {SCENARIOS.relative_to(SCENARIOS.parents[2])} waits for {reason.value}:"
        " provoke it on a cluster and recover from it"
    )
