"""Requests to the hooks as files, and what the hooks answer to them."""

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import yaml

from hooks import questions, recording, settings, wire
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.recording import Circumstances
from local.errors import Usage

# Beside the folders of many fixtures, or in one: what `recorded` says in a request of its own.
SHARED = "recorded.json"

# Of hooks that tell nothing of their settings: the images as the install names them.
IMAGES = {"NOCTAYA_GATEWAY_IMAGE": "noctaya/gateway", "NOCTAYA_FETCHER_IMAGE": "noctaya/fetcher"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """A request, and all else that its answer depends on."""

    file: Path
    body: Object
    circumstances: Circumstances
    timed: bool
    """Whether the file tells when it was asked."""


def read(file: Path) -> Recording:
    """The recording in ``file``. Raises Usage."""
    body = _json(file)
    path = questions.path_of(body)
    if not path:
        raise Usage(
            f"{file}: no request to the hooks: expected a JSON object with children or attachments "
            "beside its parent, or with a parent alone"
        )
    told = {**_shared(file), **body}
    default = Circumstances(
        path=path,
        at=datetime.datetime.now(datetime.UTC),
        settings=settings.from_environment(IMAGES),
    )
    try:
        circumstances = recording.circumstances_of(told, default)
    except recording.RecordingError as e:
        raise Usage(f"{file}: {e}") from e
    timed = circumstances.at != default.at
    return Recording(file=file, body=body, circumstances=circumstances, timed=timed)


def answer(asked: Recording) -> Object:
    """What the hooks of this version answer, as it is sent. Raises RequestError."""
    found = asked.circumstances
    response = questions.answer(found.path, asked.body, settings=found.settings, now=found.at)
    sent: Object = json.loads(objects.compact(wire.dump(response)))
    return sent


def to_yaml(value: Any) -> str:
    """Block YAML, in one spelling: the form of the fixtures."""
    text: str = yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=100)
    return text


def _shared(file: Path) -> Object:
    for folder in (file.parent, file.parent.parent):
        if (folder / SHARED).is_file():
            return {"recorded": _json(folder / SHARED)}
    return {}


def _json(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        raise Usage(f"{file}: cannot be read: {e.strerror}") from e
    except ValueError as e:
        raise Usage(f"{file}: not JSON: {e}") from e
    try:
        return objects.parse(text)
    except RecursionError as e:
        raise Usage(f"{file}: not JSON: it is nested too deeply") from e
    except ValueError:
        raise _mistake(file, text) from None


def _mistake(file: Path, text: str) -> Usage:
    """What is wrong with a text that the hooks would not take for JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as e:
        return Usage(f"{file}:{e.lineno}: not JSON: {e.msg}")
    except (RecursionError, ValueError) as e:
        return Usage(f"{file}: not JSON: {e}")
    return Usage(
        f"{file}: not JSON as an API server writes it: it holds NaN, a number without end or half"
        " a character"
    )
