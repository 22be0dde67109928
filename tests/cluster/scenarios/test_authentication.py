"""Clients' keys: none yet, right, wrong, and another one without a restart."""

import dataclasses
import os
from collections.abc import Iterator

import pytest

from tests.cluster.scenarios import builders
from tests.cluster.scenarios.builders import Object
from tests.cluster.scenarios.conftest import Start
from tests.cluster.scenarios.endpoint import Endpoint

SECRET = "clients"
FIRST, SECOND, WRONG = (f"rig-{os.urandom(8).hex()}" for _ in range(3))


@pytest.fixture(scope="module")
def locked(start: Start) -> Endpoint:
    """Idle long enough to be awake through the module."""
    reference = {"secretRef": {"name": SECRET, "key": "api-key"}}
    overlay = {"spec": {"endpoint": {"authentication": reference}}}
    return start("locked", idle_seconds=120, overlay=overlay)


@pytest.fixture(scope="module")
def gateway(locked: Endpoint) -> Object:
    """Its one gateway, as it was before it had a key."""
    locked.wait_asleep()
    (pod,) = locked.pods("gateway")
    return pod


def test_a_gateway_without_its_secret_is_up_and_lets_nobody_in(
    locked: Endpoint, gateway: Object
) -> None:
    locked.wait_armed()
    for key in (None, FIRST):
        refused = _with_key(locked, key).ask()
        assert (refused.status, refused.error["code"]) == (503, "authentication_unavailable")
    assert locked.replica_numbers() == [0]


def test_the_right_key_wakes_the_model_and_a_wrong_one_does_not(
    locked: Endpoint, gateway: Object
) -> None:
    _write_key(locked, FIRST)
    locked.cluster.wait(
        "the key has arrived", lambda: _with_key(locked, WRONG).ask().status == 401, 30
    )
    for key in (None, WRONG, SECOND):
        refused = _with_key(locked, key).ask()
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    assert locked.replica_numbers() == [0]
    answer = _with_key(locked, FIRST).ask("Let me in")
    assert answer.finished
    assert "Let me in" in answer.text
    assert locked.replica_numbers() == [0, 1]


def test_another_key_counts_without_a_restart_and_the_old_one_ends_with_it(
    locked: Endpoint, gateway: Object
) -> None:
    locked.wait_ready()
    _write_key(locked, SECOND)
    seen = []

    def changed() -> bool:
        seen.append((_with_key(locked, FIRST).ask().status, _with_key(locked, SECOND).ask().status))
        return seen[-1] == (401, 200)

    locked.cluster.wait("the new key has arrived", changed, 30)
    # Between the two requests of a pair the file may change, and only once.
    assert set(seen[:-1]) <= {(200, 401), (200, 200)}, seen
    assert seen[:-1].count((200, 200)) <= 1
    assert [_with_key(locked, key).ask().status for key in (FIRST, SECOND)] == [401, 200]
    (pod,) = locked.pods("gateway")
    assert pod["metadata"]["uid"] == gateway["metadata"]["uid"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def test_no_key_is_in_a_log_or_a_metric(locked: Endpoint, gateway: Object) -> None:
    told = list(_told(locked))
    assert any("invalid_api_key" in text or "unauthenticated" in text for text in told)
    for text in told:
        assert not [key for key in (FIRST, SECOND, WRONG) if key in text]


def _told(locked: Endpoint) -> Iterator[str]:
    """What the gateway and the engine have said to anybody but their clients."""
    for component in ("gateway", "backend"):
        name = f"deploy/{locked.name}-{component}"
        yield locked.cluster.kubectl("logs", name, f"-n={locked.namespace}", "--all-containers")
    with locked.cluster.session() as http:
        yield http.get(f"{locked.url}/metrics", timeout=5).text


def _with_key(locked: Endpoint, key: str | None) -> Endpoint:
    return dataclasses.replace(locked, key=key)


def _write_key(locked: Endpoint, key: str) -> None:
    locked.cluster.apply(builders.secret(locked.namespace, SECRET, {"api-key": key}))
