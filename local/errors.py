"""What ends a command: each line says what was found, what was expected and where."""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the user's manifests something stands."""

    file: Path
    line: int
    field: str = ""
    """Dotted, as kubectl writes it: ``spec.scaling.min``. Empty: the whole document."""

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}"
        return f"{at}: {self.field}" if self.field else at


class Problem(Exception):
    """One or more lines for the user. Nothing is left running when it is shown."""

    exit_code: int

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Usage(Problem):
    """The call or the manifests are wrong; nothing was started."""

    exit_code = 2


class Failure(Problem):
    """The manifests are right and this machine could not do it."""

    exit_code = 1
