"""How a request can end: a closed list, fit for a metric's label."""

import enum


class Outcome(enum.StrEnum):
    SERVED = "served"  # The engine's whole answer was passed on, whatever its status.
    ANSWERED = "answered"  # Answered here, without the engine: the model list while cold.
    NO_ROUTE = "no_route"
    INVALID = "invalid"  # A request that HTTP or the route does not allow.
    MODEL_NOT_FOUND = "model_not_found"
    UNAUTHENTICATED = "unauthenticated"
    AUTHENTICATION_UNAVAILABLE = "authentication_unavailable"  # The key file holds no key.
    QUEUE_FULL = "queue_full"
    BYTES_FULL = "bytes_full"
    COLD = "cold"  # No replica yet: reject mode, or a method that wakes nothing.
    ACTIVATION_TIMEOUT = "activation_timeout"
    HOLD_TIMEOUT = "hold_timeout"  # Not streaming, so nothing kept the client's patience up.
    NOT_ACTIVATABLE = "not_activatable"
    UPSTREAM_ERROR = "upstream_error"  # The engine broke off, before or after its first byte.
    UPSTREAM_TIMEOUT = "upstream_timeout"
    EXHAUSTED = "exhausted"  # No descriptor or memory was left for a connection to the engine.
    ABANDONED = "abandoned"  # The client left.
    SHUTDOWN = "shutdown"
    FAULT = "fault"  # A bug of ours.
