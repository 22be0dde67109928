"""What every source thinks of an HTTP answer, whatever it asked for."""

import datetime
import json
import os
import pathlib
import typing

from fetcher import errors, retry, transport, uris

# A listing page of a hub has about a thousand entries of 200 bytes; 64 MiB is far beyond.
MAX_JSON_BYTES = 64 * 1024 * 1024


def raise_if_transient(answer: transport.Answer) -> None:
    """An answer that says "not now" is worth another try, after the pause that it asks for."""
    if retry.transient(answer.status):
        raise errors.Transient(
            f"{uris.without_secrets(answer.url)} answers {answer.status}",
            after=retry.wish(answer.headers, now=datetime.datetime.now(datetime.UTC)),
        )


def unexpected(answer: transport.Answer, wanted: str) -> errors.BadRemote:
    """An answer that no rule explains."""
    return errors.BadRemote(
        f"{uris.without_secrets(answer.url)} answers {answer.status} where {wanted} was expected: "
        "check the address"
    )


def load_json(answer: transport.Answer, wanted: str) -> typing.Any:
    """The JSON that a body holds; a captive portal's page is told apart from an outage."""
    return parse_json(answer.read(MAX_JSON_BYTES), answer, wanted)


def parse_json(body: bytes, answer: transport.Answer, wanted: str) -> typing.Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as e:
        kind = answer.content_type or "something"
        raise errors.BadRemote(
            f"{uris.without_secrets(answer.url)} answers {kind} where {wanted} was expected: a "
            "wrong address, a proxy or a login page stands in between"
        ) from e


def is_size(value: object) -> typing.TypeGuard[int]:
    """Whether a remote's word is a size: a whole number, not negative, not a bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def endpoint_from(
    environ: typing.Mapping[str, str], name: str, default: str, *, scheme: str = ""
) -> str:
    """A hub's address from a variable, without a slash at its end; `scheme` where it names none."""
    found = environ.get(name) or default
    address = found if "://" in found or not scheme else f"{scheme}://{found}"
    try:
        transport.origin(address)
    except errors.BadRemote as e:
        shown = uris.without_secrets(found)
        raise errors.Usage(
            f"{name}={shown} is not an http or https address: write it like {default}"
        ) from e
    return address.rstrip("/")


def secret_from(environ: typing.Mapping[str, str], *names: str) -> str | None:
    """The first of some variables that holds something, without the newline that files end in."""
    for name in names:
        if value := environ.get(name, "").strip():
            return checked_secret(value, name)
    return None


def secret_from_file(path: str, said_by: str) -> str:
    """A secret that a mounted file holds."""
    try:
        value = pathlib.Path(os.path.expanduser(path)).read_text("utf-8").strip()
    except (OSError, ValueError) as e:
        raise errors.Usage(f"{said_by}: {path} cannot be read ({type(e).__name__})") from e
    return checked_secret(value, said_by)


def checked_secret(value: str, said_by: str) -> str:
    """Refuse a secret that no HTTP header can carry, without showing it."""
    if not value.isascii() or not value.isprintable() or " " in value:
        raise errors.Usage(f"{said_by} holds spaces or unprintable characters: not a token")
    return value
