"""Pages of docs/ whose tables say what happens and which test holds it."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def unknown_tests(text: str, *folders: str) -> list[str]:
    """Tests that a page names and that are not there exactly once."""
    known = _defined(*folders)
    named = re.findall(r"`(test_\w+)`", text)
    assert named
    return [name for name in named if known[name] != 1]


def cases(text: str, head: str) -> list[str]:
    """The rows of those tables whose head begins so."""
    found, wanted = [], False
    for before, line in zip(["", *text.splitlines()], text.splitlines(), strict=False):
        if line.startswith("|") and not before.startswith("|"):
            wanted = line.startswith(f"| {head} |")
        elif wanted and line.startswith("| "):
            found.append(line)
    return found


def untested(rows: list[str]) -> list[str]:
    return [row for row in rows if "`test_" not in row]


def _defined(*folders: str) -> Counter[str]:
    """Test functions by name."""
    files = [file for folder in folders for file in (ROOT / folder).glob("*.py")]
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
