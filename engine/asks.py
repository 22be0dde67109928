"""Bodies of the two generating endpoints, parsed into values with no optional field left.

The order of refusals is vLLM's: the schema first, then the model's name, then the lengths.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from engine import echo, errors
from engine.config import Config

# What /v1/completions generates when max_tokens is left out (OpenAI's and vLLM's default).
COMPLETION_DEFAULT_TOKENS = 16

# OpenAI's limit.
MOST_CHOICES = 128

Body = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ask:
    """One request to generate: ``n`` choices for each prompt."""

    chat: bool
    model: str
    prompts: tuple[str, ...]
    """What is echoed: the last user message, or each prompt of a completion."""
    prompt_tokens: int
    n: int
    limits: echo.Limits
    stream: bool
    include_usage: bool
    continuous_usage: bool


def load(raw: bytes, content_type: str) -> Body:
    """The JSON object in ``raw``. Duplicate keys: the last wins. A byte order mark is accepted."""
    if content_type != "application/json":
        raise errors.schema(f"expected application/json, found {content_type!r}", "")
    try:
        body = json.loads(raw)
    except UnicodeDecodeError as e:
        raise errors.schema(f"the body is not UTF-8 text: {e.reason}", "") from e
    except json.JSONDecodeError as e:
        raise errors.schema(f"JSON decode error: {e.msg} at character {e.pos}", str(e.pos)) from e
    if not isinstance(body, dict):
        raise errors.schema(f"expected a JSON object, found {_kind(body)}", "")
    return body


def chat(body: Body, config: Config) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise errors.schema(_expected("a list of messages", body, "messages"), "messages")
    texts = [_message(message, index) for index, message in enumerate(messages)]
    common = _common(body)
    model = _model(body, config)
    if not texts:
        raise errors.bad_request("messages is empty: expected at least one message", "messages")
    asked = _integer(body, "max_completion_tokens")
    if asked is None:
        asked = _integer(body, "max_tokens")
    prompt_tokens = sum(echo.count(text) for _, text in texts)
    return Ask(
        chat=True,
        model=model,
        prompts=(next((text for role, text in reversed(texts) if role == "user"), texts[-1][1]),),
        prompt_tokens=prompt_tokens,
        limits=_limits(body, config, asked=asked, prompt_tokens=prompt_tokens, default=None),
        **common,
    )


def completion(body: Body, config: Config) -> Ask:
    prompts = _prompts(body)
    common = _common(body)
    model = _model(body, config)
    counts = [echo.count(prompt) for prompt in prompts]
    asked = _integer(body, "max_tokens")
    return Ask(
        chat=False,
        model=model,
        prompts=prompts,
        prompt_tokens=sum(counts),
        limits=_limits(
            body,
            config,
            asked=asked,
            prompt_tokens=max(counts),
            default=COMPLETION_DEFAULT_TOKENS,
        ),
        **common,
    )


def _message(message: object, index: int) -> tuple[str, str]:
    """(role, text) of one message; parts of content are joined."""
    field = f"messages.{index}"
    if not isinstance(message, dict):
        raise errors.schema(f"expected an object, found {_kind(message)}", field)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise errors.schema(_expected("a role", message, "role"), f"{field}.role")
    match content:
        case None:  # An assistant message that only calls tools has no content.
            return role, ""
        case str():
            return role, content
        case list():
            return role, "\n".join(_part(part, f"{field}.content") for part in content)
        case _:
            message_ = f"expected a string or a list of parts, found {_kind(content)}"
            raise errors.schema(message_, f"{field}.content")


def _part(part: object, field: str) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)} if kind != "text":
            raise errors.bad_request(f"the echo engine reads text only, found a part {kind!r}")
        case _:
            raise errors.schema("expected a part with a type and a text", field)


def _prompts(body: Body) -> tuple[str, ...]:
    match body.get("prompt"):
        case str(prompt):
            return (prompt,)
        case [str(), *_] as prompts if all(isinstance(prompt, str) for prompt in prompts):
            return tuple(prompts)
        case [int(), *_] | [[*_], *_]:
            raise errors.bad_request("the echo engine has no tokenizer: send text, not token ids")
        case _:
            message = _expected("a string or a list of strings", body, "prompt")
            raise errors.schema(message, "prompt")


def _common(body: Body) -> dict[str, Any]:
    stream = _boolean(body, "stream")
    options = body.get("stream_options")
    if options is None:
        options = {}
    elif not isinstance(options, dict):
        raise errors.schema(_expected("an object", body, "stream_options"), "stream_options")
    elif not stream:
        raise errors.schema("stream_options is only for stream=true", "stream_options")
    n = _integer(body, "n")
    if n is not None and not 1 <= n <= MOST_CHOICES:
        raise errors.bad_request(f"n is {n}: expected 1 to {MOST_CHOICES}", "n")
    return {
        "n": n or 1,
        "stream": stream,
        "include_usage": _boolean(options, "include_usage"),
        "continuous_usage": _boolean(options, "continuous_usage_stats"),
    }


def _model(body: Body, config: Config) -> str:
    """The name asked for; vLLM takes a missing, null or empty one as its own first name."""
    model = body.get("model")
    if model is None or model == "":
        return config.served_names[0]
    if not isinstance(model, str):
        raise errors.schema(_expected("a string", body, "model"), "model")
    if model not in config.served_names:
        raise errors.unknown_model(model, config.served_names)
    return model


def _limits(
    body: Body, config: Config, *, asked: int | None, prompt_tokens: int, default: int | None
) -> echo.Limits:
    room = config.max_model_len - prompt_tokens
    if room < 1:
        raise errors.bad_request(
            f"the prompt has {prompt_tokens} tokens, the context {config.max_model_len}: "
            "shorten the prompt",
            "max_tokens",
        )
    if asked is not None and not 1 <= asked <= room:
        raise errors.bad_request(
            f"max_tokens is {asked}: expected 1 to {room}, what the context of "
            f"{config.max_model_len} tokens leaves beside a prompt of {prompt_tokens}",
            "max_tokens",
        )
    min_tokens = _integer(body, "min_tokens") or 0
    return echo.Limits(
        max_tokens=asked if asked is not None else min(room, default or room),
        min_tokens=min_tokens,
        ignore_end=_boolean(body, "ignore_eos"),
        stop=_stop(body),
    )


def _stop(body: Body) -> tuple[str, ...]:
    match body.get("stop"):
        case None:
            return ()
        case str(stop):
            stops: tuple[str, ...] = (stop,)
        case [*many] if all(isinstance(stop, str) for stop in many):
            stops = tuple(many)
        case _:
            raise errors.schema(_expected("a string or a list of strings", body, "stop"), "stop")
    if "" in stops:
        raise errors.bad_request("stop cannot contain an empty string", "stop")
    return stops


def _integer(body: Body, field: str) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.schema(_expected("an integer", body, field), field)
    return value


def _boolean(body: Body, field: str) -> bool:
    value = body.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise errors.schema(_expected("true or false", body, field), field)
    return value


def _expected(what: str, body: Body, field: str) -> str:
    found = _kind(body[field]) if field in body else "nothing"
    return f"{field}: expected {what}, found {found}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
