"""Every setting of the hooks is in the docs."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
VARIABLE = re.compile(r"\bNOCTAYA_[A-Z_]+\b")


def test_every_variable_that_the_hooks_read_is_in_the_docs_and_no_other() -> None:
    read = {
        name
        for file in (ROOT / "hooks").rglob("*.py")
        for name in VARIABLE.findall(file.read_text())
    }
    text = (ROOT / "docs" / "install.md").read_text()
    table = text.partition("## Settings of the hooks")[2].partition("\n## ")[0]
    told = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in VARIABLE.findall(line.split("|")[1])
    }
    assert told == read
