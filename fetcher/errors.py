"""What can go wrong, classed by what the caller does next.

    FetchError
      permanent (the Job's podFailurePolicy fails at once)
        Usage  Unauthorized  NotFound  Mismatch  Refused  NoSpace  NoPermission  BadRemote
      an outage (the Job tries again)
        Unavailable  TimedOut  Interrupted

Every kind has its own exit code. The message says what was found, what was expected and what to
do, on one line, and never holds a secret or a query string.
"""

from typing import ClassVar


class FetchError(Exception):
    """A reason to stop that a person can act on."""

    kind: ClassVar[str]
    exit_code: ClassVar[int]

    def line(self) -> str:
        """The one line that logs and the status quote."""
        return f"{self.kind}: {' '.join(str(self).split())}"


class Usage(FetchError):
    """The command or the URI cannot mean anything."""

    kind = "usage"
    exit_code = 2  # argparse's own code for the same mistake.


class Unauthorized(FetchError):
    """The remote wants other credentials, or an accepted licence."""

    kind = "unauthorized"
    exit_code = 10


class NotFound(FetchError):
    """The repository, revision, artifact or file is not there."""

    kind = "not found"
    exit_code = 11


class Mismatch(FetchError):
    """The bytes are not the ones that were promised."""

    kind = "mismatch"
    exit_code = 12


class Refused(FetchError):
    """The content is of a kind or has a name that is never written."""

    kind = "refused"
    exit_code = 13


class NoSpace(FetchError):
    """The volume cannot hold the model."""

    kind = "no space"
    exit_code = 14


class NoPermission(FetchError):
    """The volume does not let this user write."""

    kind = "permission"
    exit_code = 15


class BadRemote(FetchError):
    """The remote does not speak the protocol that was expected of it."""

    kind = "registry"
    exit_code = 16


class Unavailable(FetchError):
    """The remote failed again and again; later it may not."""

    kind = "unavailable"
    exit_code = 20


class TimedOut(FetchError):
    """The remote stopped sending, again and again."""

    kind = "timeout"
    exit_code = 21


class Interrupted(FetchError):
    """A signal asked the run to stop; what was written is kept for the next run."""

    kind = "interrupted"
    exit_code = 143  # 128 + SIGTERM, as shells report it.


class Transient(Exception):
    """A failure worth another try; never leaves the package.

    `after` is the remote's own wish in seconds; `stalled` tells silence from refusal.
    """

    def __init__(self, message: str, *, after: float | None = None, stalled: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.stalled = stalled

    def final(self, tries: int) -> FetchError:
        """What this failure is called once no try is left."""
        if self.stalled:
            return TimedOut(f"{self}; gave up after {tries} tries: check the network and retry")
        return Unavailable(f"{self}; gave up after {tries} tries: retry later")
