"""AutoscalingReady: what KEDA says, or that it says nothing."""

import dataclasses
import re

from hooks.llmservice.failures import GATEWAY_DEADLINE_SECONDS, Deadlines
from hooks.llmservice.observe import Seen
from hooks.llmservice.reasons import Reason
from hooks.llmservice.verdict import Verdict, false, unfinished
from hooks.llmservice.words import Words

_WAITS_FOR_GATEWAY = "the ScaledObject is made once a gateway replica is available"
_WAITS_FOR_WEIGHTS = "the ScaledObject is made once the weights are staged"

# KEDA's words for a scaler that it got no answer from, be it that no handshake succeeded.
_SILENT_SCALER = "no metric specs returned from scalers"


def verdict(words: Words | None, seen: Seen, deadlines: Deadlines, *, certificate: str) -> Verdict:
    """The condition; ``words`` is None until the autoscaling Decorator has written any.

    ``certificate`` is the Secret that the scaler shows; empty where it speaks no TLS.
    """
    said = _said(words, seen)
    if certificate and _SILENT_SCALER in said.message:
        said = dataclasses.replace(said, message=unfinished(said.message) + _hint(certificate))
    if words is None or not deadlines.passed(seen.scaler.stuck_since, GATEWAY_DEADLINE_SECONDS):
        return said
    # KEDA may be content with the Pod before it, and does not know why one does not answer.
    begin = unfinished(said.message)
    message = f"{begin}; a Pod that is to answer KEDA does not start: {seen.scaler.stuck}"
    return dataclasses.replace(said, message=message)


def _hint(certificate: str) -> str:
    """KEDA 2.20 does not tell a refused certificate from an absent scaler, nor looks again."""
    return (
        f"; where the scaler is available, one of the two does not accept the other's certificate:"
        f" compare Secret {certificate} with what the authenticationRef names, and once it is"
        " right, delete the Pod that answers KEDA, so that KEDA reads it again"
    )


def _said(words: Words | None, seen: Seen) -> Verdict:
    if words is None and not seen.gateway.available:
        return false(Reason.GATEWAY_STARTING, _WAITS_FOR_GATEWAY)
    if words is None and not seen.scaler.available:
        said = [Reason.SCALER_STARTING.help, seen.scaler.trouble]
        return false(Reason.SCALER_STARTING, " ".join(filter(None, said)))
    if words is None and not seen.prewarm.weights.usable:
        return false(Reason.PREWARMING, _WAITS_FOR_WEIGHTS)
    if words is None or not words.ready:
        return false(Reason.AUTOSCALER_MISSING, Reason.AUTOSCALER_MISSING.help)
    status = words.ready if words.ready in ("True", "False") else "Unknown"
    # The form that Kubernetes gives to reasons, and the length that it takes.
    named = re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?", words.reason)
    return Verdict(status, words.reason if named else "Unknown", words.message)
