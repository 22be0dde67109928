"""The fixtures: recorded requests and what is expected of the hooks for them.

``tests/fixtures/<case>/request.json`` is a hook request as Metacontroller sends it; a Composite's
has ``parent``, a Decorator's ``object``. ``expected.yaml`` is the whole answer, given at `NOON` by
hooks with `SETTINGS`.
"""

from __future__ import annotations

import json
import pathlib

import yaml

from hooks import wire
from hooks.autoscaling import sync as autoscaling
from hooks.llmservice import sync as llmservice
from tests.pure.hooks.world import NOON, SETTINGS, Obj

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"


def cases() -> list[str]:
    return sorted(path.parent.name for path in FIXTURES.glob("*/request.json"))


def request(case: str) -> Obj:
    loaded: Obj = json.loads((FIXTURES / case / "request.json").read_text())
    return loaded


def answer(body: Obj) -> Obj:
    """The answer to a recorded request of either kind. Raises RequestError."""
    if "object" in body:
        return wire.dump(autoscaling.sync(wire.load(wire.DecoratorRequest, body)))
    composite = wire.load(wire.CompositeRequest, body)
    return wire.dump(llmservice.sync(composite, settings=SETTINGS, now=NOON))


def to_yaml(value: Obj) -> str:
    text: str = yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=100)
    return text
