"""`docs/gateway.md` names every metric, and tests that exist."""

import ast
import re
from collections import Counter
from pathlib import Path

from gateway import signals

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "gateway.md").read_text()


def defined() -> Counter[str]:
    """Test functions by name."""
    files = [*ROOT.glob("tests/process/gateway/*.py"), *ROOT.glob("tests/pure/gateway/*.py")]
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_row_names_tests_that_exist_once() -> None:
    known = defined()
    named = re.findall(r"`(test_\w+)`", TEXT)
    assert named
    assert not [name for name in named if known[name] != 1]


def test_every_case_has_a_test() -> None:
    rows = [line for line in TEXT.partition("## Watching it")[0].splitlines() if line[:2] == "| "]
    cases = [row for row in rows if not row.startswith("| What happens |")]
    assert len(cases) > 50
    assert not [case for case in cases if "`test_" not in case]


def test_every_metric_is_explained_and_every_explained_one_exists() -> None:
    counters = {"counter": "_total"}
    made = {m.name + counters.get(m.type, "") for m in signals.Signals().metrics()}
    made |= {f"noctaya_{gauge}" for gauge in signals.GAUGES}
    assert set(re.findall(r"^\| `(noctaya_\w+)`", TEXT, re.MULTILINE)) == made
