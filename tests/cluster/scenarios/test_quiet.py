"""A quiet cluster is silent."""

import datetime
import time

from tests.cluster.scenarios.endpoint import Endpoint

QUIET_SECONDS = 120

# KEDA's own words about a new ScaledObject may still reach the status this long after.
SETTLING = datetime.timedelta(seconds=15)


def test_an_idle_service_is_not_written_to(quiet: Endpoint) -> None:
    """Read backwards: it was idle all the while that other tests kept the cluster busy."""
    quiet.wait_asleep()
    asleep = datetime.datetime.fromisoformat(quiet.condition("Ready")["lastTransitionTime"])
    end = asleep + SETTLING + datetime.timedelta(seconds=QUIET_SECONDS)
    time.sleep(max(0.0, (end - datetime.datetime.now(datetime.UTC)).total_seconds()))
    late = [str(e) for e in quiet.our_writes() if e.at > asleep + SETTLING]
    assert late == []
    assert quiet.our_writes(), "the audit log shows no write at all: it is not being read rightly"
