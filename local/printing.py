"""What a command has to say: the answer on standard output, notes beside it on standard error."""

import os
import sys

from local.errors import Failure


def say(text: str, *, end: str = "\n") -> None:
    """Print at once. BrokenPipeError where nobody reads any more, Failure where it cannot be kept.

    Nothing is printed after either: what is still buffered must not be tried again at the exit.
    """
    try:
        if sys.stdout is None:
            raise Failure("standard output is closed: nobody would see the answer")
        print(text, end=end, flush=True)
    except UnicodeEncodeError as e:
        character = ascii(e.object[e.start])
        raise Failure(
            f"standard output: its encoding {e.encoding} has no {character}; set PYTHONUTF8=1"
        ) from e
    except OSError as e:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(e, BrokenPipeError):
            raise
        raise Failure(f"standard output: {e.strerror}") from e


def note(*sentences: str) -> None:
    """Tell what a person should know and a program that reads the answer need not."""
    for sentence in sentences:
        print(f"noctaya: {sentence}", file=sys.stderr)
