"""AutoscalingReady: what KEDA says, or that it says nothing."""

import re

from hooks.llmservice.reasons import Reason
from hooks.llmservice.verdict import Verdict, false
from hooks.llmservice.words import Words

_WAITS = "the ScaledObject is made once a gateway replica is available"


def verdict(words: Words | None, *, gateway_available: bool) -> Verdict:
    """The condition; ``words`` is None until the autoscaling Decorator has written any."""
    if words is None and not gateway_available:
        return false(Reason.GATEWAY_STARTING, _WAITS)
    if words is None or not words.ready:
        return false(Reason.AUTOSCALER_MISSING, Reason.AUTOSCALER_MISSING.help)
    status = words.ready if words.ready in ("True", "False") else "Unknown"
    # The form that Kubernetes gives to reasons.
    named = re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", words.reason)
    return Verdict(status, words.reason if named else "Unknown", words.message)
