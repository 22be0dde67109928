"""`docs/fetcher.md` names every exit code, and tests that exist."""

import re

from fetcher import errors
from tests.pure import pages

TEXT = (pages.ROOT / "docs" / "fetcher.md").read_text()


def test_every_row_names_tests_that_exist_once() -> None:
    assert not pages.unknown_tests(TEXT, "tests/process/fetcher", "tests/pure/fetcher")


def test_every_case_has_a_test() -> None:
    cases = pages.cases(TEXT, "What happens")
    assert len(cases) > 60
    assert not pages.untested(cases)


def test_every_exit_code_is_explained() -> None:
    said = {
        (int(code), kind) for code, kind in re.findall(r"^\| (\d+) \| `([a-z ]+):`", TEXT, re.M)
    }
    assert said == {(kind.exit_code, kind.kind) for kind in errors.FetchError.__subclasses__()}
