"""Clients' keys: one Bearer token, in a file that may be replaced at any time.

The file is a mounted Secret. It is looked at for every request, so that a rotation takes effect
with the first request after it, and read only when it changed. Neither a key nor what was sent in
its place is ever logged, counted or answered.
"""

import hmac
import os
import time
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from gateway import errors, log
from gateway.outcomes import Outcome

_Version = tuple[int, int, int]
# File times move in steps of a few milliseconds: a file that was written just now may be written
# again without a trace in them.
_SETTLED_NS = 100_000_000


class KeyFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)  # os.stat of a Path takes twice as long.
        self._version: _Version | None = None
        self._key: bytes | None = None
        self._trouble: str | None = None

    def check(self, http: web.BaseRequest) -> None:
        """Raises Refusal: 401 for any key but the one, 503 while there is none to compare with."""
        expected = self._current()
        if expected is None:
            raise errors.Refusal(
                503,
                "authentication_unavailable",
                "this gateway has no key to check yours against",
                outcome=Outcome.AUTHENTICATION_UNAVAILABLE,
                close=True,
            )
        given = token(http.headers.getall("Authorization", ()))
        if given is None or not hmac.compare_digest(given, expected):
            raise errors.Refusal(
                401,
                "invalid_api_key",
                "no valid key was given; send it as: Authorization: Bearer <key>",
                outcome=Outcome.UNAUTHENTICATED,
                kind="invalid_request_error",
                close=True,
            )

    def _current(self) -> bytes | None:
        try:
            stat = os.stat(self._name)
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                now = time.time_ns()
                self._key = key(self._path.read_bytes())
                self._version = version if stat.st_mtime_ns < now - _SETTLED_NS else None
                self._report(None if self._key else "the key file is empty")
        except OSError as e:
            self._version, self._key = None, None
            self._report(f"the key file cannot be read: {e.strerror}")
        return self._key

    def _report(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            log.error("no key to authenticate clients with", reason=trouble)
        self._trouble = trouble


def key(content: bytes) -> bytes | None:
    """The key in a Secret's bytes: without the newline that ``echo`` added, nor a scheme that was
    pasted along. None where nothing is left, which no client's key may equal."""
    words = content.split()
    if len(words) == 2 and words[0].lower() == b"bearer":
        return words[1]
    return content.strip() or None


def token(authorization: Sequence[str]) -> bytes | None:
    """What a client sent as its key; None where it sent none, or more than one."""
    if len(authorization) != 1:
        return None
    scheme, _, rest = authorization[0].strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    return rest.strip().encode("utf-8", "surrogateescape")
