"""The fixtures: recorded requests and what is expected of the hooks for them.

``tests/fixtures/<case>/request.json`` is a hook request as Metacontroller sends it; a Composite's
has ``parent``, a Decorator's ``object``. ``expected.yaml`` is the whole answer, given at `NOON` by
hooks with `SETTINGS`.
"""

from __future__ import annotations

import json
import pathlib

from hooks import questions, wire
from tests.pure.hooks.world import NOON, SETTINGS, Obj

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"


def cases() -> list[str]:
    return sorted(path.parent.name for path in FIXTURES.glob("*/request.json"))


def request(case: str) -> Obj:
    loaded: Obj = json.loads((FIXTURES / case / "request.json").read_text())
    return loaded


def answer(body: Obj) -> Obj:
    """The answer to a recorded request of any kind. Raises RequestError."""
    path = questions.path_of(body)
    return wire.dump(questions.answer(path, body, settings=SETTINGS, now=NOON))
