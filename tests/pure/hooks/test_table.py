"""The status table that readers see is the one that statuses are written by."""

from __future__ import annotations

import collections
import re
from typing import Any

import pytest

from hooks.k8s import objects
from hooks.llmservice import table
from hooks.llmservice.reasons import Reason
from tests.pure.hooks import golden

STATUSES = {
    case: answer["status"]
    for case in golden.cases()
    if "phase" in (answer := golden.answer(golden.request(case))).get("status", {})
}


def test_every_reason_has_one_place() -> None:
    placed = [reason for row in table.ROWS for reason in row.reasons] + list(table.ELSEWHERE)
    # Those of a runtime's own status are told on services as well, but for the one that is good.
    placed.append(Reason.ACCEPTED)
    assert set(table.OF_RUNTIMES) <= set(placed)
    assert collections.Counter(placed) == collections.Counter(Reason)


@pytest.mark.parametrize("case", STATUSES)
def test_a_status_shows_what_its_row_says(case: str) -> None:
    status = STATUSES[case]
    row = table.row_of(status)
    conditions = {"status": status}
    assert objects.condition(conditions, "Ready")["status"] == row.ready
    assert not row.phases or status["phase"] in row.phases
    if row.degraded:
        assert objects.condition(conditions, "Degraded")["status"] == row.degraded


def test_the_fixtures_show_the_rows() -> None:
    """But for the one that needs two minutes without a gateway."""
    shown = {table.number(table.row_of(status)) for status in STATUSES.values()}
    assert len(shown) >= len(table.ROWS) - 2


def test_a_reason_of_ours_that_keda_gives_is_keda_s() -> None:
    """A ScaledObject's name can be taken, too; the service itself is not degraded by that."""
    ready = {"type": "Ready", "status": "False", "reason": "ChildNameTaken"}
    assert table.row_of({"phase": "Pending", "conditions": [ready]}) is table.AUTOSCALING


def with_a_period(value: Any) -> Any:
    """Every message in ``value`` as a whole sentence."""
    if isinstance(value, dict):
        return {
            key: f"{item.rstrip('.')}."
            if key == "message" and item and isinstance(item, str)
            else with_a_period(item)
            for key, item in value.items()
        }
    return [with_a_period(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("sentences", [False, True])
@pytest.mark.parametrize("case", golden.cases())
def test_a_message_reads_as_sentences_whoever_wrote_its_parts(case: str, sentences: bool) -> None:
    """Schedulers end theirs with a period, kubelets do not."""
    body = golden.request(case)
    status = golden.answer(with_a_period(body) if sentences else body).get("status", {})
    for condition in status.get("conditions", []):
        assert not re.search(r"(?<!\.)\.\.(?!\.)|\.[;:,]|  ", condition["message"])
