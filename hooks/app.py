"""The hooks over HTTP: transport only. JSON in, a pure function, JSON out.

A body that is no hook request is answered 400 with the reason, and Metacontroller then changes
nothing. A user's mistake is no error here: it is answered 200 with a status and the children as
they were. Bodies are never logged, since they hold what users wrote into environments.
"""

import datetime
import gc
import http
import logging
import os
import sys
from typing import Any

import flask
import gunicorn.http.errors
from werkzeug.exceptions import HTTPException

from hooks import authorization, questions, recording, wire
from hooks import settings as settings_module
from hooks.authorization import Authorization
from hooks.k8s import objects
from hooks.recording import Recorder
from hooks.settings import Settings

log = logging.getLogger("noctaya.hooks")

# gunicorn's own exit code for an application that cannot be loaded: it then stops, and does not
# start worker after worker.
_CANNOT_LOAD = 4

_PROBES = ("/healthz", "/readyz")

# Containers that are made between two looks for cycles: a body alone has some thousands, and we
# make no cycles. Python's own 700 cost a sync 7 % and, with the program's own objects looked at
# each time, every hundredth one 25 ms.
_COLLECT_EVERY = 10_000


def create_app(settings: Settings | None = None) -> flask.Flask:
    """The WSGI application. Where the environment is not usable it says why and exits."""
    chosen = settings or _settings()
    recorder = _recorder(chosen)
    app = flask.Flask("noctaya-hooks", static_folder=None)
    required = authorization.from_environment(os.environ)
    if required is not None:
        _ask_for_token(app, required)
    for path in questions.ANSWERS:
        _route(app, path, chosen, recorder)
    for path in _PROBES:
        app.add_url_rule(path, path, _healthy)
    for status in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.METHOD_NOT_ALLOWED):
        app.register_error_handler(status, _misdirected)
    _spare_the_collector()
    return app


def _spare_the_collector() -> None:
    """What is loaded now stays for good, and need not be looked through."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, 20, 20)


def _settings() -> Settings:
    try:
        return settings_module.from_environment(os.environ)
    except settings_module.SettingsError as error:
        sys.stderr.write(f"noctaya-hooks: {error}\n")
        raise SystemExit(_CANNOT_LOAD) from None


def _recorder(settings: Settings) -> Recorder | None:
    try:
        return recording.from_environment(os.environ, settings)
    except OSError as error:
        sys.stderr.write(
            f"noctaya-hooks: {recording.VARIABLE}: {error}; set it to a folder to write to\n"
        )
        raise SystemExit(_CANNOT_LOAD) from None


def _ask_for_token(app: flask.Flask, required: Authorization) -> None:
    """Before anything is answered, unknown paths included; the kubelet's probes show no token."""

    def refuse() -> flask.Response | None:
        if flask.request.path in _PROBES:
            return None
        refusal = required.refusal(flask.request.headers.get("Authorization"))
        if refusal is None:
            return None
        log.warning("%r refused: %s", flask.request.path, refusal.reason)
        answer = _json({"error": refusal.reason}, status=refusal.status)
        if refusal.status == http.HTTPStatus.UNAUTHORIZED:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    app.before_request(refuse)


def _misdirected(error: HTTPException) -> flask.Response:
    """A hook's URL may be misspelt; Metacontroller logs what it was answered."""
    hooks = ", ".join(questions.ANSWERS)
    answer = error.get_response()
    answer.mimetype = "application/json"
    answer.set_data(objects.spell({"error": f"{error.name}: expected a POST to one of {hooks}"}))
    return flask.Response(answer.get_data(), error.code, answer.headers)


def _healthy() -> flask.Response:
    """Stateless: whoever answers is ready."""
    return _json({"status": "ok"})


def _route(app: flask.Flask, path: str, settings: Settings, recorder: Recorder | None) -> None:
    def view() -> flask.Response:
        now = datetime.datetime.now(datetime.UTC)
        try:
            body = _parse(_received())
            if recorder is not None:
                recorder.record(path, body, at=now)
            return _json(wire.dump(questions.answer(path, body, settings=settings, now=now)))
        except wire.RequestError as error:
            reason = str(error)
        except RecursionError:
            # Wherever it shows: the parser of JSON goes deeper than those who walk what it made.
            reason = "the body is nested too deeply"
        log.warning("%r refused: %s", path, reason)
        return _json({"error": reason}, status=400)

    app.add_url_rule(path, path, view, methods=["POST"])


def _received() -> bytes:
    """The whole body. Raises RequestError where it breaks off, or its chunks are none."""
    try:
        return flask.request.get_data(cache=False)
    except (OSError, gunicorn.http.errors.ParseException):
        raise wire.RequestError("the body cannot be read to its end") from None


def _parse(body: bytes) -> Any:
    """The body's JSON. Raises RequestError."""
    try:
        return objects.parse(body)
    except ValueError:
        raise wire.RequestError("the body is not JSON") from None


def _json(value: Any, *, status: int = 200) -> flask.Response:
    return flask.Response(objects.spell(value), status=status, mimetype="application/json")
