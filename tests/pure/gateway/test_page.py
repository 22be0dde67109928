"""`docs/gateway.md` names every metric, and tests that exist."""

import re

from gateway import signals
from tests.pure import pages

TEXT = (pages.ROOT / "docs" / "gateway.md").read_text()


def test_every_row_names_tests_that_exist_once() -> None:
    assert not pages.unknown_tests(
        TEXT, "tests/process/gateway", "tests/pure/gateway", "tests/pure/hooks"
    )


def test_every_case_has_a_test() -> None:
    cases = pages.cases(TEXT, "What happens")
    assert len(cases) > 50
    assert not pages.untested(cases)


def test_every_metric_is_explained_and_every_explained_one_exists() -> None:
    counters = {"counter": "_total"}
    made = {m.name + counters.get(m.type, "") for m in signals.Signals().metrics()}
    made |= {f"noctaya_{gauge}" for gauge in signals.GAUGES}
    assert set(re.findall(r"^\| `(noctaya_\w+)`", TEXT, re.MULTILINE)) == made
