"""`docs/reasons.md` is what the code says."""

from __future__ import annotations

import pathlib

from hooks.llmservice import page
from hooks.llmservice.reasons import Reason

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def test_the_file_is_that_of_the_code() -> None:
    """Where it is behind: python -m hooks.llmservice.page."""
    assert page.main(["--check", str(DOCS)]) == 0


def test_every_reason_is_explained() -> None:
    text = page.files()["reasons.md"]
    for reason in Reason:
        assert f"| `{reason.value}` | {reason.help} |" in text
