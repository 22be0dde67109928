"""The hooks without HTTP: a path and a parsed body in, an answer out.

What is served, what is recorded and what is replayed offline are answered here.
"""

import datetime
from collections.abc import Callable
from typing import Any

from hooks import wire
from hooks.autoscaling import sync as autoscaling
from hooks.k8s import objects
from hooks.llmservice import sync as llmservice
from hooks.runtimestatus import sync as runtimestatus
from hooks.settings import Settings

COMPOSITE_SYNC = "/llmservice/sync"
COMPOSITE_CUSTOMIZE = "/llmservice/customize"
DECORATOR_SYNC = "/autoscaling/sync"
DECORATOR_CUSTOMIZE = "/autoscaling/customize"
RUNTIME_SYNC = "/runtimestatus/sync"
RUNTIME_CUSTOMIZE = "/runtimestatus/customize"

Answer = Callable[[Any, Settings, datetime.datetime], wire.Response]


def _composite_sync(body: Any, settings: Settings, now: datetime.datetime) -> wire.Response:
    request = wire.load(wire.CompositeRequest, body)
    return llmservice.sync(request, settings=settings, now=now)


def _composite_customize(body: Any, _: Settings, __: datetime.datetime) -> wire.Response:
    return llmservice.customize(wire.load(wire.CustomizeRequest, body))


def _decorator_sync(body: Any, _: Settings, now: datetime.datetime) -> wire.Response:
    return autoscaling.sync(wire.load(wire.DecoratorRequest, body), now=now)


def _decorator_customize(body: Any, _: Settings, __: datetime.datetime) -> wire.Response:
    return autoscaling.customize(wire.load(wire.CustomizeRequest, body))


def _runtime_sync(body: Any, _: Settings, now: datetime.datetime) -> wire.Response:
    return runtimestatus.sync(wire.load(wire.RuntimeDecoratorRequest, body), now=now)


def _runtime_customize(body: Any, _: Settings, __: datetime.datetime) -> wire.Response:
    return runtimestatus.customize(wire.load(wire.RuntimeCustomizeRequest, body))


ANSWERS: dict[str, Answer] = {
    COMPOSITE_SYNC: _composite_sync,
    COMPOSITE_CUSTOMIZE: _composite_customize,
    DECORATOR_SYNC: _decorator_sync,
    DECORATOR_CUSTOMIZE: _decorator_customize,
    RUNTIME_SYNC: _runtime_sync,
    RUNTIME_CUSTOMIZE: _runtime_customize,
}


def answer(path: str, body: Any, *, settings: Settings, now: datetime.datetime) -> wire.Response:
    """The answer of the hook at ``path``, one of `ANSWERS`. Raises RequestError."""
    return ANSWERS[path](body, settings, now)


def path_of(body: Any) -> str:
    """The path that a body was meant for, told by its shape; "" where it is no hook request.

    The two customize requests look alike but for the controller that they name.
    """
    if not isinstance(body, dict):
        return ""
    if "object" in body:
        of_runtime = objects.text(body, "object", "kind") == "InferenceRuntime"
        return RUNTIME_SYNC if of_runtime else DECORATOR_SYNC
    if "children" in body:
        return COMPOSITE_SYNC
    if "parent" not in body:
        return ""
    if objects.text(body, "parent", "kind") == "InferenceRuntime":
        return RUNTIME_CUSTOMIZE
    if objects.text(body, "controller", "kind") == "DecoratorController":
        return DECORATOR_CUSTOMIZE
    return COMPOSITE_CUSTOMIZE
