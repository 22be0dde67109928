"""What a body asks for, as far as a cold gateway must know it: the model's name, and a stream."""

import dataclasses
import json

from gateway import errors
from gateway.outcomes import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    model: str | None
    stream: bool


# Forms, audio, compressed bodies: what the engine makes of them is not for the gateway to guess.
OPAQUE = Ask(model=None, stream=False)


def read(body: bytes, *, content_type: str | None, content_encoding: str | None) -> Ask:
    """Raises Refusal (400) where a JSON body is none: waking a model could not help it."""
    if content_encoding not in (None, "", "identity") or not _is_json(content_type):
        return OPAQUE
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as e:
        reason = "nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise errors.invalid(400, f"the body is not valid JSON: {reason}") from None
    if not isinstance(parsed, dict):
        raise errors.invalid(400, "the body is not a JSON object")
    model = parsed.get("model")
    return Ask(
        model=model if isinstance(model, str) and model else None,
        stream=parsed.get("stream") is True,
    )


def check_model(ask: Ask, served: frozenset[str]) -> None:
    """Raises Refusal (404) for a model that the engine will not serve; no names: any is taken."""
    if ask.model is None or not served or ask.model in served:
        return
    names = ", ".join(sorted(served))
    raise errors.Refusal(
        404,
        "model_not_found",
        f"the model {ask.model!r} is not served here; served: {names}",
        outcome=Outcome.MODEL_NOT_FOUND,
        kind="invalid_request_error",
        param="model",
    )


def _is_json(content_type: str | None) -> bool:
    """A missing type counts as JSON, which is all that the engine takes without one."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    return media == "application/json" or media.endswith("+json")
