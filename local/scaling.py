"""What KEDA and the HPA would decide, as values in and values out; times are in seconds.

KEDA owns 0 <-> 1: a push or a poll that says "active" wakes the target, and only a poll puts it
back, once the cooldown since the last active observation has passed. The HPA owns 1 <-> N.
"""

import dataclasses
import math

from hooks.k8s import objects
from hooks.k8s.objects import Object

# The HPA changes nothing while the metric is within a tenth of the target.
TOLERANCE = 0.1

# kube-controller-manager's --horizontal-pod-autoscaler-sync-period.
HPA_PERIOD_SECONDS = 15.0

# The HPA's default scale-up policies: at most so many more, or twice as many, in one period.
SCALE_UP_PODS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """What a ScaledObject says."""

    min_replicas: int
    max_replicas: int
    polling_interval: float
    cooldown: float
    initial_cooldown: float
    scale_down_window: float
    """The HPA goes down no further than the highest wish within this window."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Observed:
    """What KEDA remembers between looks."""

    created_at: float
    last_active_at: float | None = None


def pushed(rules: Rules, replicas: int) -> int:
    """The replicas after a pushed "active"; a pushed "inactive" never comes here."""
    return replicas or max(1, rules.min_replicas)


def polled(rules: Rules, seen: Observed, *, replicas: int, active: bool, now: float) -> int:
    """The replicas after a poll."""
    if active:
        return pushed(rules, replicas)
    if rules.min_replicas:
        return max(replicas, rules.min_replicas)
    if seen.last_active_at is None:
        cooled = seen.created_at + rules.initial_cooldown < now
    else:
        cooled = seen.last_active_at + rules.cooldown < now
    return 0 if cooled else replicas


def wished(rules: Rules, *, replicas: int, metric: float, target: float) -> int:
    """The HPA's recommendation for a metric that is averaged over replicas."""
    ratio = metric / (target * replicas)
    wish = math.ceil(metric / target) if abs(1 - ratio) > TOLERANCE else replicas
    return min(max(wish, 1, rules.min_replicas), rules.max_replicas)


def stabilised(rules: Rules, wishes: list[tuple[float, int]], *, replicas: int, now: float) -> int:
    """The replicas after the HPA's behaviour policies.

    ``wishes`` are (time, recommendation), the latest last.
    """
    latest = wishes[-1][1]
    if latest >= replicas:
        return min(latest, max(replicas + SCALE_UP_PODS, 2 * replicas))
    highest = max(wish for at, wish in wishes if at >= now - rules.scale_down_window)
    return min(highest, replicas)


def rules(scaled_object: Object) -> Rules:
    """A ScaledObject's, with KEDA's and the HPA's own defaults for what it leaves out."""
    spec = objects.mapping(scaled_object, "spec")
    behaviour = objects.mapping(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior")

    def number(field: str, default: int) -> int:
        found = objects.number(spec, field)
        return default if found is None else found

    window = objects.number(behaviour, "scaleDown", "stabilizationWindowSeconds")
    return Rules(
        min_replicas=number("minReplicaCount", 0),
        max_replicas=number("maxReplicaCount", 100),
        polling_interval=number("pollingInterval", 30),
        cooldown=number("cooldownPeriod", 300),
        initial_cooldown=number("initialCooldownPeriod", 0),
        scale_down_window=300 if window is None else window,
    )
