"""Who may ask: whoever shows the token of the installation, where it has one.

Metacontroller sends it as `Authorization: Bearer TOKEN` from a Secret; the hooks read it from the
same Secret, mounted as a file. The file is read for every request, so that a new token is in force
as soon as the kubelet has renewed the file.
"""

import dataclasses
import hmac
import pathlib
from collections.abc import Mapping

VARIABLE = "NOCTAYA_AUTHORIZATION_FILE"


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a request is not answered, and with which HTTP status."""

    status: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Authorization:
    """Asks for the token in ``path``."""

    path: pathlib.Path

    def refusal(self, header: str | None) -> Refusal | None:
        """Why a request with this Authorization header is refused; None where it is not.

        Without a usable file nobody is let in: the fault is ours then, so that the status is 503.
        """
        try:
            token = self.path.read_bytes().strip()
        except OSError as error:
            return self._no_token(error.strerror or "it cannot be read")
        if not token:
            return self._no_token("it is empty")
        if header is None:
            return Refusal(401, "no Authorization header: expected Bearer and the hooks' token")
        scheme, _, given = header.partition(" ")
        if scheme.lower() != "bearer":
            return Refusal(401, "Authorization has another scheme than Bearer")
        # WSGI hands bytes over as Latin-1.
        if not hmac.compare_digest(given.strip().encode("latin-1", "replace"), token):
            return Refusal(
                401,
                "the token is not the one in the hooks' Secret; after a change of the Secret "
                "restart Metacontroller, which reads it only once",
            )
        return None

    def _no_token(self, why: str) -> Refusal:
        return Refusal(503, f"{VARIABLE} names {self.path}, but {why}: mount a Secret with a token")


def from_environment(environment: Mapping[str, str]) -> Authorization | None:
    """What the environment asks for; None where it asks for no token."""
    path = environment.get(VARIABLE)
    return None if path is None else Authorization(pathlib.Path(path))
