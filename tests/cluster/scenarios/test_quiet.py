"""A quiet cluster is silent."""

import datetime
import time

from tests.cluster import audit
from tests.cluster.scenarios.conftest import Start

QUIET_SECONDS = 120

# KEDA's own words about a new ScaledObject may still reach the status this long after.
SETTLING = datetime.timedelta(seconds=15)


def test_an_idle_service_is_not_written_to(start: Start) -> None:
    """By nobody at all, while other workers keep the cluster busy."""
    quiet = start("quiet")
    quiet.wait_asleep()
    asleep = datetime.datetime.fromisoformat(quiet.condition("Ready")["lastTransitionTime"])
    end = asleep + SETTLING + datetime.timedelta(seconds=QUIET_SECONDS)
    time.sleep(max(0.0, (end - datetime.datetime.now(datetime.UTC)).total_seconds()))
    assert quiet.writes(), "the audit log shows no write at all: it is not being read rightly"
    late = [event for event in quiet.writes() if event.at > asleep + SETTLING]
    assert [str(event) for event in late if not _keeps_books(event)] == []


def _keeps_books(event: audit.Event) -> bool:
    """KEDA's and the HPA controller's own notes, which they may take whenever they like."""
    kind = f"{event.resource}/{event.subresource}"
    return kind == "scaledobjects/status" or event.resource == "horizontalpodautoscalers"
