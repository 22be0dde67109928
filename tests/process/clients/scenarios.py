"""What can happen to a call, and what its user has to see of it, whatever the client.

Scenarios of one ``Stage`` happen at the same time, to one gateway and one engine.
"""

import dataclasses
import enum
import itertools
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """``but``: clients that cannot do as the others. ``size``: bytes of the request's text."""

    id: str
    title: str
    stage: Stage
    kind: Kind
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


_TOO_LONG = "too long for me"
_BROKE_OFF = "the engine closed the connection before its answer was whole"
_NOT_STARTED = "the model did not start within"
_STOPPING = "this gateway is being stopped"

# By group, in the order of the page.
GROUPS: dict[str, tuple[Scenario, ...]] = {
    "The model runs": (
        Scenario(
            id="warm-stream",
            title="a stream",
            stage=Stage.WARM,
            kind=Kind.STREAM,
            expected=Text(),
        ),
        Scenario(
            id="warm-plain",
            title="a plain request",
            stage=Stage.WARM,
            kind=Kind.PLAIN,
            expected=Text(),
        ),
        Scenario(
            id="warm-400",
            title="the engine answers 400",
            stage=Stage.WARM,
            kind=Kind.STREAM,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, status=400, code="400"),
        ),
        Scenario(
            id="warm-500",
            title="the engine answers 500",
            stage=Stage.WARM,
            kind=Kind.PLAIN,
            script=answers.says_500,
            expected=Failure(says="it broke", status=500, code="500", tries=3),
        ),
        Scenario(
            id="dies-at-once",
            title="the engine resets before its answer",
            stage=Stage.WARM,
            kind=Kind.PLAIN,
            script=answers.dies_at_once,
            expected=Failure(says=_BROKE_OFF, status=502, code="upstream_error", tries=3),
        ),
        Scenario(
            id="silent",
            title="the engine says nothing",
            stage=Stage.SILENT,
            kind=Kind.PLAIN,
            script=answers.says_nothing,
            expected=Failure(
                says="the engine did not begin to answer",
                status=504,
                code="backend_timeout",
                tries=3,
            ),
        ),
        Scenario(
            id="dies-between-events",
            title="the engine resets after a whole event",
            stage=Stage.WARM,
            kind=Kind.STREAM,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, code="upstream_error", text=answers.WORDS[0]),
        ),
        Scenario(
            id="dies-within-an-event",
            title="the engine resets within an event",
            stage=Stage.WARM,
            kind=Kind.STREAM,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
        Scenario(
            id="cut-short",
            title="the engine resets within a plain answer",
            stage=Stage.WARM,
            kind=Kind.PLAIN,
            script=answers.cut_short,
            expected=Failure(says="", tries=3),
            # They retry what fails before an answer's body, and no later.
            but={"openai-node": Failure(says=""), "curl": Failure(says="")},
        ),
        Scenario(
            id="stopping",
            title="the gateway is stopped and the stream outlasts its grace",
            stage=Stage.STOPPING,
            kind=Kind.STREAM,
            script=answers.goes_on_for_long,
            expected=Failure(says=_STOPPING, code="gateway_stopping", text=answers.WORDS[0]),
        ),
    ),
    "The model starts": (
        Scenario(
            id="cold-stream",
            title="a stream is held, with heartbeats",
            stage=Stage.COLD,
            kind=Kind.STREAM,
            expected=Text(),
        ),
        Scenario(
            id="cold-plain",
            title="a plain request is held",
            stage=Stage.COLD,
            kind=Kind.PLAIN,
            expected=Text(),
        ),
        Scenario(
            id="cold-patient",
            title="the client's read timeout is longer than `heartbeatInterval`",
            stage=Stage.COLD,
            kind=Kind.STREAM,
            timeout=4,
            expected=Text(seconds=4.5),
        ),
        Scenario(
            id="cold-impatient",
            title="the client's read timeout is shorter than `heartbeatInterval`",
            stage=Stage.SELDOM_BEATS,
            kind=Kind.STREAM,
            timeout=1,
            retries=0,
            expected=Failure(says=""),
        ),
        Scenario(
            id="cold-chunks",
            title="it takes longer than the client waits between chunks: heartbeats are comments",
            stage=Stage.COLD,
            kind=Kind.STREAM,
            chunk_timeout=3,
            expected=Text(),
            but={"langchain-async": Failure(says="No streaming chunk received")},
        ),
        Scenario(
            id="cold-data",
            title="the same, and heartbeats are data, by annotation",
            stage=Stage.COLD_WITH_DATA,
            kind=Kind.STREAM,
            chunk_timeout=3,
            expected=Text(),
        ),
        Scenario(
            id="cold-400",
            title="the engine's first answer to a held stream is a 400",
            stage=Stage.COLD,
            kind=Kind.STREAM,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, code="400"),
        ),
        Scenario(
            id="never-stream",
            title="it does not start within `activationTimeout`: a stream",
            stage=Stage.NEVER_STARTS,
            kind=Kind.STREAM,
            expected=Failure(says=_NOT_STARTED, code="activation_timeout"),
        ),
        Scenario(
            id="never-plain",
            title="it does not start within `activationTimeout`: a plain request",
            stage=Stage.NEVER_STARTS,
            kind=Kind.PLAIN,
            expected=Failure(says=_NOT_STARTED, status=503, code="activation_timeout", tries=3),
        ),
        Scenario(
            id="rejecting",
            title="`reject` mode, and the model is up when the client comes back",
            stage=Stage.REJECTING,
            kind=Kind.STREAM,
            expected=Text(tries=2, seconds=1.9),
        ),
    ),
    "The gateway refuses": (
        Scenario(
            id="full",
            title="`maxQueue` requests are waiting or running",
            stage=Stage.FULL,
            kind=Kind.STREAM,
            expected=Failure(
                says="the queue is full",
                status=429,
                code="rate_limit_exceeded",
                tries=3,
                seconds=1.9,
            ),
        ),
        Scenario(
            id="hopeless",
            title="nothing will start the model",
            stage=Stage.HOPELESS,
            kind=Kind.PLAIN,
            expected=Failure(says="Is KEDA installed", status=503, code="not_activatable"),
            # x-should-retry is the SDKs' own.
            but={
                "curl": Failure(
                    says="Is KEDA installed", status=503, code="not_activatable", tries=3
                )
            },
        ),
        Scenario(
            id="wrong-key",
            title="a wrong key",
            stage=Stage.LOCKED,
            kind=Kind.STREAM,
            key="sk-wrong",
            expected=Failure(says="no valid key was given", status=401, code="invalid_api_key"),
        ),
        Scenario(
            id="other-model",
            title="a model that is not served, while cold",
            stage=Stage.OTHER_MODEL,
            kind=Kind.STREAM,
            expected=Failure(says="is not served here", status=404, code="model_not_found"),
        ),
        Scenario(
            id="large",
            title="a body over 64 MiB",
            stage=Stage.LARGE,
            kind=Kind.PLAIN,
            size=64 * 1024 * 1024,
            expected=Failure(says="the body is larger than", status=413),
        ),
    ),
    "`/v1/responses`, streaming": (
        Scenario(
            id="responses-warm",
            title="the model runs",
            stage=Stage.WARM,
            kind=Kind.RESPONSES,
            expected=Text(),
        ),
        Scenario(
            id="responses-cold",
            title="the model starts",
            stage=Stage.COLD,
            kind=Kind.RESPONSES,
            expected=Text(),
        ),
        Scenario(
            id="responses-400",
            title="the engine's first answer to a held stream is a 400",
            stage=Stage.COLD,
            kind=Kind.RESPONSES,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, code="400"),
        ),
        Scenario(
            id="responses-never",
            title="the model does not start within `activationTimeout`",
            stage=Stage.NEVER_STARTS,
            kind=Kind.RESPONSES,
            expected=Failure(says=_NOT_STARTED, code="activation_timeout"),
        ),
        Scenario(
            id="responses-dies-between-events",
            title="the engine resets after a whole event",
            stage=Stage.WARM,
            kind=Kind.RESPONSES,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, code="upstream_error", text=answers.WORDS[0]),
        ),
        Scenario(
            id="responses-dies-within-an-event",
            title="the engine resets within an event",
            stage=Stage.WARM,
            kind=Kind.RESPONSES,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
    ),
    "`/v1/messages`, streaming": (
        Scenario(
            id="messages-warm",
            title="the model runs",
            stage=Stage.WARM,
            kind=Kind.MESSAGES,
            expected=Text(),
        ),
        Scenario(
            id="messages-cold",
            title="the model starts",
            stage=Stage.COLD,
            kind=Kind.MESSAGES,
            expected=Text(),
        ),
        Scenario(
            id="messages-data",
            title="the same, and heartbeats are data, by annotation",
            stage=Stage.COLD_WITH_DATA,
            kind=Kind.MESSAGES,
            expected=Text(),
        ),
        Scenario(
            id="messages-400",
            title="the engine's first answer to a held stream is a 400",
            stage=Stage.COLD,
            kind=Kind.MESSAGES,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG),
        ),
        Scenario(
            id="messages-never",
            title="the model does not start within `activationTimeout`",
            stage=Stage.NEVER_STARTS,
            kind=Kind.MESSAGES,
            expected=Failure(says=_NOT_STARTED),
        ),
        Scenario(
            id="messages-dies-between-events",
            title="the engine resets after a whole event",
            stage=Stage.WARM,
            kind=Kind.MESSAGES,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, text=answers.WORDS[0]),
        ),
        Scenario(
            id="messages-dies-within-an-event",
            title="the engine resets within an event",
            stage=Stage.WARM,
            kind=Kind.MESSAGES,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
        Scenario(
            id="messages-rejecting",
            title="`reject` mode, and the model is up when the client comes back",
            stage=Stage.REJECTING,
            kind=Kind.MESSAGES,
            expected=Text(tries=2, seconds=1.9),
        ),
        Scenario(
            id="messages-full",
            title="`maxQueue` requests are waiting or running",
            stage=Stage.FULL,
            kind=Kind.MESSAGES,
            expected=Failure(says="the queue is full", status=429, tries=3, seconds=1.9),
        ),
        Scenario(
            id="messages-wrong-key",
            title="a wrong key",
            stage=Stage.LOCKED,
            kind=Kind.MESSAGES,
            key="sk-wrong",
            expected=Failure(says="no valid key was given", status=401),
        ),
    ),
}

ALL = tuple(itertools.chain.from_iterable(GROUPS.values()))
