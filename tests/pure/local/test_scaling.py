"""What KEDA and the HPA would decide."""

import pytest

from local import scaling
from local.scaling import Observed, Rules

RULES = Rules(
    min_replicas=0,
    max_replicas=10,
    polling_interval=10,
    cooldown=30,
    initial_cooldown=60,
    scale_down_window=300,
)
NEW = Observed(created_at=0)
USED = Observed(created_at=0, last_active_at=100)


def with_min(replicas: int) -> Rules:
    return Rules(**{**vars(RULES), "min_replicas": replicas})


def test_a_push_wakes_from_zero_and_changes_nothing_else() -> None:
    assert scaling.pushed(RULES, 0) == 1
    assert scaling.pushed(RULES, 3) == 3
    assert scaling.pushed(with_min(2), 0) == 2


@pytest.mark.parametrize(
    ("seen", "now", "replicas"),
    [
        pytest.param(USED, 130.0, 3, id="the cooldown is not over"),
        pytest.param(USED, 130.1, 0, id="the cooldown is over"),
        pytest.param(NEW, 60.0, 3, id="never active: the initial cooldown is not over"),
        pytest.param(NEW, 60.1, 0, id="never active: the initial cooldown is over"),
    ],
)
def test_an_inactive_poll_zeroes_from_any_number_after_the_cooldown(
    seen: Observed, now: float, replicas: int
) -> None:
    assert scaling.polled(RULES, seen, replicas=3, active=False, now=now) == replicas


def test_an_active_poll_wakes_like_a_push() -> None:
    assert scaling.polled(RULES, USED, replicas=0, active=True, now=1000) == 1
    assert scaling.polled(RULES, USED, replicas=4, active=True, now=1000) == 4


def test_a_poll_never_goes_below_min_and_restores_it() -> None:
    rules = with_min(2)
    assert scaling.polled(rules, USED, replicas=5, active=False, now=1000) == 5
    assert scaling.polled(rules, USED, replicas=1, active=False, now=1000) == 2


@pytest.mark.parametrize(
    ("metric", "replicas", "wish"),
    [
        pytest.param(25.0, 1, 3, id="the ceiling"),
        pytest.param(10.9, 1, 1, id="within a tenth of the target"),
        pytest.param(11.1, 1, 2, id="beyond a tenth"),
        pytest.param(0.0, 4, 1, id="never zero"),
        pytest.param(1000.0, 4, 10, id="never above max"),
    ],
)
def test_the_hpas_wish_is_the_metric_over_the_target(
    metric: float, replicas: int, wish: int
) -> None:
    assert scaling.wished(RULES, replicas=replicas, metric=metric, target=10) == wish


def test_the_hpa_goes_up_by_four_or_by_doubling() -> None:
    def up(replicas: int) -> int:
        return scaling.stabilised(RULES, [(0, 100)], replicas=replicas, now=0)

    assert (up(1), up(4), up(8)) == (5, 8, 16)


def test_the_hpa_goes_down_to_the_highest_wish_of_the_window() -> None:
    wishes = [(0.0, 9), (150.0, 4), (400.0, 1)]
    assert scaling.stabilised(RULES, wishes, replicas=9, now=400) == 4
    assert scaling.stabilised(RULES, wishes, replicas=9, now=300) == 9
    assert scaling.stabilised(RULES, wishes, replicas=2, now=400) == 2


def test_a_scaled_object_without_numbers_means_kedas_defaults() -> None:
    assert scaling.rules({"spec": {}}) == Rules(
        min_replicas=0,
        max_replicas=100,
        polling_interval=30,
        cooldown=300,
        initial_cooldown=0,
        scale_down_window=300,
    )


def test_a_scaled_object_is_taken_at_its_word() -> None:
    window = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    spec = {
        "minReplicaCount": 1,
        "maxReplicaCount": 2,
        "pollingInterval": 10,
        "cooldownPeriod": 0,
        "initialCooldownPeriod": 5,
        "advanced": {"horizontalPodAutoscalerConfig": window},
    }
    assert scaling.rules({"spec": spec}) == Rules(
        min_replicas=1,
        max_replicas=2,
        polling_interval=10,
        cooldown=0,
        initial_cooldown=5,
        scale_down_window=0,
    )
