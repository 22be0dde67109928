"""Hook requests kept as files, each of which can be replayed offline and become a fixture.

A recording is the request without what its users would not show, plus a member `recorded` that
says where it was sent, when, and to hooks with which settings; hooks read past that member. It is
off unless the environment names a folder.
"""

import contextlib
import dataclasses
import datetime
import logging
import os
import pathlib
import re
import tempfile
from collections.abc import Mapping
from typing import Any

import pydantic

from hooks import questions, redaction, wire
from hooks.api.fields import shown
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.settings import Settings

VARIABLE = "NOCTAYA_RECORD_DIR"

# Of a request with children and Pods of many replicas, some tens of megabytes altogether.
MOST_FILES = 200

_MEMBER = "recorded"
_NAME = re.compile(r"[0-9]{8}T[0-9]{12}Z-[a-z]+-[a-z]+-.*\.json")
_PARTIAL = ".recording-"
_SETTINGS = pydantic.TypeAdapter(Settings)

log = logging.getLogger("noctaya.hooks")


class RecordingError(Exception):
    """The member `recorded` is none; the message says what is wrong with it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circumstances:
    """All that an answer depends on beside the request."""

    path: str
    at: datetime.datetime
    settings: Settings


def recorded(body: Object, circumstances: Circumstances) -> Object:
    """The recording of ``body``."""
    return redaction.redact(body, circumstances.settings) | {_MEMBER: written(circumstances)}


def written(circumstances: Circumstances) -> Object:
    """The circumstances as JSON-like data."""
    return {
        "at": circumstances.at.isoformat(),
        "path": circumstances.path,
        "settings": _SETTINGS.dump_python(circumstances.settings, mode="json"),
    }


def circumstances_of(body: Object, default: Circumstances) -> Circumstances:
    """The circumstances that a recording tells; ``default`` for what it does not.

    Raises RecordingError.
    """
    told = body.get(_MEMBER, {})
    if not isinstance(told, dict):
        raise RecordingError(f"{_MEMBER}: expected an object with path, at and settings")
    path = told.get("path", default.path)
    if not isinstance(path, str) or path not in questions.ANSWERS:
        known = ", ".join(questions.ANSWERS)
        raise RecordingError(f"{_MEMBER}.path: found {shown(path)}, expected one of {known}")
    at = default.at if "at" not in told else objects.time(told, "at")
    if at is None:
        raise RecordingError(f"{_MEMBER}.at: expected a time like 2026-06-01T12:00:00Z")
    try:
        settings = _SETTINGS.validate_python(told["settings"]) if "settings" in told else None
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in (_MEMBER, "settings", *fault["loc"]))
        raise RecordingError(f"{where}: {wire.IN_WORDS.get(fault['type'], fault['msg'])}") from None
    return Circumstances(path=path, at=at, settings=settings or default.settings)


class Recorder:
    """A folder of recordings, of which the latest `MOST_FILES` are kept."""

    def __init__(self, folder: pathlib.Path, settings: Settings) -> None:
        """Makes the folder. Raises OSError where it cannot be written to."""
        self._folder = folder
        self._settings = settings
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_PARTIAL}*"):  # Of a process that ended while it wrote.
            left.unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass

    def record(self, path: str, body: Any, *, at: datetime.datetime) -> None:
        """Writes ``body`` down. Never raises: an answer is worth more than its recording."""
        if not isinstance(body, dict):
            return
        try:
            circumstances = Circumstances(path=path, at=at, settings=self._settings)
            text = objects.compact(recorded(body, circumstances))
            self._write(_name(path, body, at), text)
            self._forget_oldest()
        except (OSError, RecursionError, ValueError) as error:
            log.warning(
                "request not recorded", extra={"path": path, "reason": type(error).__name__}
            )

    def _write(self, name: str, text: str) -> None:
        handle, partial = tempfile.mkstemp(prefix=_PARTIAL, dir=self._folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            pathlib.Path(partial).replace(self._folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                pathlib.Path(partial).unlink()
            raise

    def _forget_oldest(self) -> None:
        """Only files that are named like a recording go: the folder may hold others' too."""
        names = sorted(name for name in os.listdir(self._folder) if _NAME.fullmatch(name))
        for name in names[:-MOST_FILES]:
            (self._folder / name).unlink(missing_ok=True)


def from_environment(environment: Mapping[str, str], settings: Settings) -> Recorder | None:
    """The recorder that ``environment`` asks for, if any. Raises OSError."""
    folder = environment.get(VARIABLE, "")
    return Recorder(pathlib.Path(folder), settings) if folder else None


def _name(path: str, body: Object, at: datetime.datetime) -> str:
    """Sorted by time; tells which hook was asked about which service."""
    stamp = at.astimezone(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ")
    parent = body.get("object", body.get("parent"))
    service = "-".join(objects.text(parent, "metadata", field) for field in ("namespace", "name"))
    return f"{stamp}{path.replace('/', '-')}-{re.sub('[^a-z0-9.-]', '_', service)[:120]}.json"
