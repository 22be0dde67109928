"""What can happen to a call, and what its user has to see of it, whatever the client.

Scenarios of one ``Stage`` happen at the same time, to one gateway and one engine.
"""

import dataclasses
import enum
from collections.abc import Mapping

from tests.process.clients import answers
from tests.process.clients.users import CLIENTS, Client, Kind
from tests.process.gateway import stubs

# An OpenAI SDK's own default; curl is told to do the same.
RETRIES = 2


class Stage(enum.Enum):
    """What the gateway and the engine go through; ``stages`` plays it."""

    WARM = enum.auto()
    COLD = enum.auto()
    COLD_WITH_DATA = enum.auto()
    NEVER_STARTS = enum.auto()
    SILENT = enum.auto()
    FULL = enum.auto()
    REJECTING = enum.auto()
    HOPELESS = enum.auto()
    LOCKED = enum.auto()
    OTHER_MODEL = enum.auto()
    SELDOM_BEATS = enum.auto()
    STOPPING = enum.auto()
    LARGE = enum.auto()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """The call returns this text, after so many seconds at least."""

    text: str = answers.TEXT
    tries: int = 1
    seconds: float = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """The call raises, after ``text``, and the message holds ``says``.

    ``status`` None: the gateway sent its 200, or nothing, so that no client can know one.
    """

    says: str
    status: int | None = None
    code: str | None = None
    text: str = ""
    tries: int = 1
    seconds: float = 0


Expected = Text | Failure


@dataclasses.dataclass(frozen=True)
class Scenario:
    """``but``: clients that cannot do as the others. ``size``: bytes of the request's text."""

    id: str
    title: str
    stage: Stage
    kind: Kind
    _: dataclasses.KW_ONLY
    expected: Expected
    but: Mapping[str, Expected] = dataclasses.field(default_factory=dict)
    script: stubs.Script = answers.proper
    retries: int = RETRIES
    timeout: float | None = None
    chunk_timeout: float | None = None
    size: int = 0
    key: str = "sk-right"

    @property
    def clients(self) -> tuple[Client, ...]:
        return tuple(client for client in CLIENTS if self.kind in client.kinds)

    def expected_of(self, client: Client) -> Expected:
        return self.but.get(client.id, self.expected)
