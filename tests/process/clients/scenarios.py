"""Every scenario, by group and in the order of the page."""

import itertools

from tests.process.clients import answers
from tests.process.clients.scenario import Failure, Scenario, Stage, Text
from tests.process.clients.users import Kind

_TOO_LONG = "too long for me"
_BROKE_OFF = "the engine closed the connection before its answer was whole"
_NOT_STARTED = "the model did not start within"
_STOPPING = "this gateway is being stopped"

GROUPS: dict[str, tuple[Scenario, ...]] = {
    "The model runs": (
        Scenario("warm-stream", "a stream", Stage.WARM, Kind.STREAM, expected=Text()),
        Scenario("warm-plain", "a plain request", Stage.WARM, Kind.PLAIN, expected=Text()),
        Scenario(
            "warm-400",
            "the engine answers 400",
            Stage.WARM,
            Kind.STREAM,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, status=400, code="400"),
        ),
        Scenario(
            "warm-500",
            "the engine answers 500",
            Stage.WARM,
            Kind.PLAIN,
            script=answers.says_500,
            expected=Failure(says="it broke", status=500, code="500", tries=3),
        ),
        Scenario(
            "dies-at-once",
            "the engine resets before its answer",
            Stage.WARM,
            Kind.PLAIN,
            script=answers.dies_at_once,
            expected=Failure(says=_BROKE_OFF, status=502, code="upstream_error", tries=3),
        ),
        Scenario(
            "silent",
            "the engine says nothing",
            Stage.SILENT,
            Kind.PLAIN,
            script=answers.says_nothing,
            expected=Failure(
                says="the engine did not begin to answer",
                status=504,
                code="backend_timeout",
                tries=3,
            ),
        ),
        Scenario(
            "dies-between-events",
            "the engine resets after a whole event",
            Stage.WARM,
            Kind.STREAM,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, code="upstream_error", text=answers.WORDS[0]),
        ),
        Scenario(
            "dies-within-an-event",
            "the engine resets within an event",
            Stage.WARM,
            Kind.STREAM,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
        Scenario(
            "cut-short",
            "the engine resets within a plain answer",
            Stage.WARM,
            Kind.PLAIN,
            script=answers.cut_short,
            expected=Failure(says="", tries=3),
            # They retry what fails before an answer's body, and no later.
            but={"openai-node": Failure(says=""), "curl": Failure(says="")},
        ),
        Scenario(
            "stopping",
            "the gateway is stopped and the stream outlasts its grace",
            Stage.STOPPING,
            Kind.STREAM,
            script=answers.goes_on_for_long,
            expected=Failure(says=_STOPPING, code="gateway_stopping", text=answers.WORDS[0]),
        ),
    ),
    "The model starts": (
        Scenario(
            "cold-stream",
            "a stream is held, with heartbeats",
            Stage.COLD,
            Kind.STREAM,
            expected=Text(),
        ),
        Scenario("cold-plain", "a plain request is held", Stage.COLD, Kind.PLAIN, expected=Text()),
        Scenario(
            "cold-patient",
            "the client's read timeout is longer than `heartbeatInterval`",
            Stage.COLD,
            Kind.STREAM,
            timeout=4,
            expected=Text(seconds=4.5),
        ),
        Scenario(
            "cold-impatient",
            "the client's read timeout is shorter than `heartbeatInterval`",
            Stage.SELDOM_BEATS,
            Kind.STREAM,
            timeout=3,
            retries=0,
            # Where an SDK announces its timeout, heartbeats come as often as it takes: what ends
            # the wait is `activationTimeout`. Node's announces that of a single call only.
            expected=Failure(says=_NOT_STARTED, code="activation_timeout"),
            but={"curl": Failure(says=""), "openai-node": Failure(says="")},
        ),
        Scenario(
            "cold-chunks",
            "it takes longer than the client waits between chunks: heartbeats are comments",
            Stage.COLD,
            Kind.STREAM,
            chunk_timeout=3,
            expected=Text(),
            but={"langchain-async": Failure(says="No streaming chunk received")},
        ),
        Scenario(
            "cold-data",
            "the same, and heartbeats are data, by annotation",
            Stage.COLD_WITH_DATA,
            Kind.STREAM,
            chunk_timeout=3,
            expected=Text(),
        ),
        Scenario(
            "cold-400",
            "the engine's first answer to a held stream is a 400",
            Stage.COLD,
            Kind.STREAM,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, code="400"),
        ),
        Scenario(
            "never-stream",
            "it does not start within `activationTimeout`: a stream",
            Stage.NEVER_STARTS,
            Kind.STREAM,
            expected=Failure(says=_NOT_STARTED, code="activation_timeout"),
        ),
        Scenario(
            "never-plain",
            "it does not start within `activationTimeout`: a plain request",
            Stage.NEVER_STARTS,
            Kind.PLAIN,
            expected=Failure(says=_NOT_STARTED, status=503, code="activation_timeout", tries=3),
        ),
        Scenario(
            "rejecting",
            "`reject` mode, and the model is up when the client comes back",
            Stage.REJECTING,
            Kind.STREAM,
            expected=Text(tries=2, seconds=1.9),
        ),
    ),
    "The gateway refuses": (
        Scenario(
            "full",
            "`maxQueue` requests are waiting or running",
            Stage.FULL,
            Kind.STREAM,
            expected=Failure(
                says="the queue is full",
                status=429,
                code="rate_limit_exceeded",
                tries=3,
                seconds=1.9,
            ),
        ),
        Scenario(
            "hopeless",
            "nothing will start the model",
            Stage.HOPELESS,
            Kind.PLAIN,
            expected=Failure(says="KEDA is missing", status=503, code="not_activatable"),
            # x-should-retry is the SDKs' own.
            but={
                "curl": Failure(says="KEDA is missing", status=503, code="not_activatable", tries=3)
            },
        ),
        Scenario(
            "wrong-key",
            "a wrong key",
            Stage.LOCKED,
            Kind.STREAM,
            key="sk-wrong",
            expected=Failure(says="no valid key was given", status=401, code="invalid_api_key"),
        ),
        Scenario(
            "other-model",
            "a model that is not served, while cold",
            Stage.OTHER_MODEL,
            Kind.STREAM,
            expected=Failure(says="is not served here", status=404, code="model_not_found"),
        ),
        Scenario(
            "large",
            "a body over 64 MiB",
            Stage.LARGE,
            Kind.PLAIN,
            size=64 * 1024 * 1024,
            expected=Failure(says="the body is larger than", status=413),
        ),
    ),
    "`/v1/responses`, streaming": (
        Scenario("responses-warm", "the model runs", Stage.WARM, Kind.RESPONSES, expected=Text()),
        Scenario("responses-cold", "the model starts", Stage.COLD, Kind.RESPONSES, expected=Text()),
        Scenario(
            "responses-400",
            "the engine's first answer to a held stream is a 400",
            Stage.COLD,
            Kind.RESPONSES,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG, code="400"),
        ),
        Scenario(
            "responses-never",
            "the model does not start within `activationTimeout`",
            Stage.NEVER_STARTS,
            Kind.RESPONSES,
            expected=Failure(says=_NOT_STARTED, code="activation_timeout"),
        ),
        Scenario(
            "responses-dies-between-events",
            "the engine resets after a whole event",
            Stage.WARM,
            Kind.RESPONSES,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, code="upstream_error", text=answers.WORDS[0]),
        ),
        Scenario(
            "responses-dies-within-an-event",
            "the engine resets within an event",
            Stage.WARM,
            Kind.RESPONSES,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
    ),
    "`/v1/messages`, streaming": (
        Scenario("messages-warm", "the model runs", Stage.WARM, Kind.MESSAGES, expected=Text()),
        Scenario("messages-cold", "the model starts", Stage.COLD, Kind.MESSAGES, expected=Text()),
        Scenario(
            "messages-data",
            "the same, and heartbeats are data, by annotation",
            Stage.COLD_WITH_DATA,
            Kind.MESSAGES,
            expected=Text(),
        ),
        Scenario(
            "messages-400",
            "the engine's first answer to a held stream is a 400",
            Stage.COLD,
            Kind.MESSAGES,
            script=answers.says_400,
            expected=Failure(says=_TOO_LONG),
        ),
        Scenario(
            "messages-never",
            "the model does not start within `activationTimeout`",
            Stage.NEVER_STARTS,
            Kind.MESSAGES,
            expected=Failure(says=_NOT_STARTED),
        ),
        Scenario(
            "messages-dies-between-events",
            "the engine resets after a whole event",
            Stage.WARM,
            Kind.MESSAGES,
            script=answers.dies_between_events,
            expected=Failure(says=_BROKE_OFF, text=answers.WORDS[0]),
        ),
        Scenario(
            "messages-dies-within-an-event",
            "the engine resets within an event",
            Stage.WARM,
            Kind.MESSAGES,
            script=answers.dies_within_an_event,
            expected=Failure(says="", text=answers.WORDS[0]),
        ),
        Scenario(
            "messages-rejecting",
            "`reject` mode, and the model is up when the client comes back",
            Stage.REJECTING,
            Kind.MESSAGES,
            expected=Text(tries=2, seconds=1.9),
        ),
        Scenario(
            "messages-full",
            "`maxQueue` requests are waiting or running",
            Stage.FULL,
            Kind.MESSAGES,
            expected=Failure(says="the queue is full", status=429, tries=3, seconds=1.9),
        ),
        Scenario(
            "messages-wrong-key",
            "a wrong key",
            Stage.LOCKED,
            Kind.MESSAGES,
            key="sk-wrong",
            expected=Failure(says="no valid key was given", status=401),
        ),
    ),
}

ALL = tuple(itertools.chain.from_iterable(GROUPS.values()))
