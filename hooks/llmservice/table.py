"""The status table, for whoever reads a status: which state has which phase and which reasons.

`hooks.llmservice.judge` decides on what is seen, and the first row that matches wins there; here
the same rows are told apart by what the status says. Tests hold the two together.
"""

import dataclasses

from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice.reasons import Reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One state of a service."""

    state: str
    phases: tuple[str, ...]  # Empty: that of the first other row that matches.
    ready: str
    degraded: str  # Empty: as in the first other row that matches.
    reasons: tuple[Reason, ...]  # Of the condition Ready.


UNRESOLVED = Row(
    state="the spec does not resolve",
    phases=(),
    ready="False",
    degraded="",
    reasons=(
        Reason.NAME_INVALID,
        Reason.SPEC_INVALID,
        Reason.NOT_IMPLEMENTED,
        Reason.RUNTIME_NOT_FOUND,
        Reason.RUNTIME_INVALID,
        Reason.RUNTIME_AMBIGUOUS,
        Reason.CACHE_SPEC_CHANGED,
        Reason.PREWARM_SPEC_CHANGED,
        Reason.FETCHER_MISSING,
        Reason.HOST_PATH_DISABLED,
    ),
)

AUTOSCALING = Row(
    state="at zero, and autoscaling is not ready",
    phases=("Pending",),
    ready="False",
    degraded="False",
    reasons=(Reason.SCALER_STARTING, Reason.AUTOSCALER_MISSING),  # And whatever KEDA says.
)

# In the order of precedence.
ROWS = (
    UNRESOLVED,
    Row(
        state="a child's name is held by an object that is not ours",
        phases=("Degraded",),
        ready="False",
        degraded="True",
        reasons=(Reason.CHILD_NAME_TAKEN,),
    ),
    Row(
        state="no gateway has been available for two minutes",
        phases=("Pending",),
        ready="False",
        degraded="True",
        reasons=(Reason.GATEWAY_NOT_READY,),
    ),
    Row(
        state="no gateway is available",
        phases=("Pending",),
        ready="False",
        degraded="False",
        reasons=(Reason.GATEWAY_STARTING,),
    ),
    Row(
        state="a replica is ready",
        phases=("Ready",),
        ready="True",
        degraded="False",
        reasons=(Reason.AVAILABLE,),
    ),
    Row(
        state="a failure is seen, or was the end of the last activation",
        phases=("Degraded",),
        ready="False",
        degraded="True",
        reasons=(
            Reason.PODS_FORBIDDEN,
            Reason.CONTAINER_CONFIG_INVALID,
            Reason.IMAGE_PULL_FAILED,
            Reason.OOM_KILLED,
            Reason.CRASH_LOOP_BACK_OFF,
            Reason.CONTAINER_RESTARTING,
            Reason.CACHE_PENDING,
            Reason.CACHE_REPLACED,
            Reason.PREWARM_FAILED,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
        ),
    ),
    Row(
        state="replicas are wanted and none is ready",
        phases=("Pending", "Loading"),
        ready="False",
        degraded="False",
        reasons=(
            Reason.ACTIVATING,
            Reason.SCHEDULING_DELAYED,
            Reason.STARTING,
            Reason.STAGING_ON_NODE,
            Reason.MODEL_LOADING,
        ),
    ),
    Row(
        state="at zero, and the weights are not staged",
        phases=("Loading",),
        ready="False",
        degraded="False",
        reasons=(Reason.PREWARMING,),
    ),
    AUTOSCALING,
    Row(
        state="at zero, and all is well",
        phases=("ScaledToZero",),
        ready="True",
        degraded="False",
        reasons=(Reason.SCALED_TO_ZERO,),
    ),
)

# Of the conditions Degraded and ColdStartBudget; in every row that they fit.
ELSEWHERE = (
    Reason.INACTIVE,
    Reason.PROGRESSING,
    Reason.SUFFICIENT,
    Reason.STARTUP_OUTLASTS_DEMAND,
)

# Of the condition Accepted of an InferenceRuntime.
OF_RUNTIMES = (
    Reason.ACCEPTED,
    Reason.RUNTIME_INVALID,
    Reason.NOT_IMPLEMENTED,
    Reason.RUNTIME_AMBIGUOUS,
)


def row_of(status: Object) -> Row:
    """The row that a status was written by."""
    ready = objects.condition({"status": status}, "Ready")
    phase = objects.text(status, "phase")
    for row in ROWS:
        if ready.get("reason") in row.reasons and (not row.phases or phase in row.phases):
            return row
    # Reasons that are not ours are KEDA's.
    return AUTOSCALING


def number(row: Row) -> int:
    """The row's place in the table, from 1."""
    return ROWS.index(row) + 1
