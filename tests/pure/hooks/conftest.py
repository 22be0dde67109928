"""Options of the hooks' tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the hooks answer now into tests/fixtures; review the difference",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    # Known only where this folder was named on the command line.
    return bool(request.config.getoption("--update-golden", default=False))
