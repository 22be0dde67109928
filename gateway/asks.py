"""What a body asks for, as far as a cold gateway must know it: the model's name, and a stream."""

import codecs
import contextlib
import dataclasses

import msgspec

from gateway import errors
from gateway.outcomes import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    model: str | None
    stream: bool


class _Body(msgspec.Struct):
    """The two members that count. The rest is looked at and never built: as Python objects a body
    of 64 MiB can be more than a gigabyte."""

    model: msgspec.Raw = msgspec.Raw(b"null")
    stream: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Body)

# Forms, audio, compressed bodies: what the engine makes of them is not for the gateway to guess.
OPAQUE = Ask(model=None, stream=False)


def read(body: bytes, *, content_type: str | None, content_encoding: str | None) -> Ask:
    """Raises Refusal (400) where a JSON body is none: waking a model could not help it.

    A JSON object under another type (curl's ``-d`` says it is a form) names its model all the same.
    It is not taken for a stream: an engine that insists on the type says 400, and heartbeats before
    it would turn that status into a 200.
    """
    if content_encoding not in (None, "", "identity"):
        return OPAQUE
    if _is_json(content_type):
        return _parse(body)
    with contextlib.suppress(errors.Refusal):
        return Ask(model=_parse(body).model, stream=False)
    return OPAQUE


def _parse(body: bytes) -> Ask:
    try:
        # A byte order mark is none of JSON's, and engines take it all the same.
        parsed = _decoder.decode(body.removeprefix(codecs.BOM_UTF8))
        is_text = bytes(parsed.model).startswith(b'"')
        model = msgspec.json.decode(parsed.model, type=str) if is_text else None
    except msgspec.ValidationError:
        raise errors.invalid(400, "the body is not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        reason = "nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise errors.invalid(400, f"the body is not valid JSON: {reason}") from None
    return Ask(model=model or None, stream=bytes(parsed.stream) == b"true")


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
