"""Scenario x client: what a user sees of every way in which a call can go."""

import asyncio
import os

import pytest

from tests.process.clients import page, scenarios, stages
from tests.process.clients.scenario import Failure, Scenario
from tests.process.clients.stages import Cell, Observed
from tests.process.clients.users import Client

pytestmark = pytest.mark.process

_REQUIRED = "NOCTAYA_REQUIRE_CLIENTS"
# What a client's own reader raises when it chokes on what it was sent.
_CRASHES = ("json.", "builtins.", "SyntaxError")


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    return asyncio.run(stages.observe(tmp_path_factory.mktemp("clients")))


@pytest.mark.parametrize(
    ("scenario", "client"),
    [
        pytest.param(scenario, client, id=f"{scenario.id}-{client.id}")
        for scenario in scenarios.ALL
        for client in scenario.clients
    ],
)
def test_users_get_the_text_or_are_told_the_truth(
    observed: Observed, scenario: Scenario, client: Client
) -> None:
    cell = _cell(observed, scenario, client)
    expected, seen = scenario.expected_of(client), cell.seen
    assert seen.text == expected.text, seen
    assert cell.tries == expected.tries, seen
    assert seen.seconds >= expected.seconds, "the client came back before it was told to"
    if isinstance(expected, Failure):
        error = seen.error
        assert error is not None, "a failure passed for an answer"
        assert expected.says in error.message, error
        assert not error.kind.startswith(_CRASHES), error
        if expected.status is not None:
            assert error.status == expected.status, error
        if expected.code is not None and client.codes:
            assert error.code == expected.code, error
    else:
        assert seen.error is None, seen


def test_the_page_is_what_was_seen(observed: Observed) -> None:
    """Where it is behind: python -m tests.process.clients."""
    for reason in observed.missing.values():
        _without(reason)
    for error in observed.failed.values():
        raise error
    assert page.PATH.read_text() == page.render(observed)


def _cell(observed: Observed, scenario: Scenario, client: Client) -> Cell:
    if client.process in observed.missing:
        _without(observed.missing[client.process])
    if scenario.stage in observed.failed:
        raise observed.failed[scenario.stage]
    return observed.cells[scenario.id, client.id]


def _without(reason: str) -> None:
    if os.environ.get(_REQUIRED) == "1":
        pytest.fail(f"{reason} ({_REQUIRED}=1 forbids skipping)", pytrace=False)
    pytest.skip(reason)
