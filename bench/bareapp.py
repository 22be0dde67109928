"""Flask, gunicorn and pydantic with nothing on top: what a hook costs before it decides anything.

A peer, not a part. It reads a hook request, has pydantic look at its outermost members, and answers
with the children that it was shown.
"""

import json
from typing import Any

import flask
import pydantic


class Request(pydantic.BaseModel):
    """The members that every hook request has one of."""

    model_config = pydantic.ConfigDict(extra="ignore")

    children: dict[str, dict[str, Any]] = {}
    attachments: dict[str, dict[str, Any]] = {}


def create_app() -> flask.Flask:
    """The WSGI application."""
    app = flask.Flask("bare", static_folder=None)
    app.add_url_rule("/readyz", "ready", lambda: "{}")
    app.add_url_rule("/<path:path>", "echo", _echo, methods=["POST"])
    return app


def _echo(path: str) -> flask.Response:
    request = Request.model_validate(json.loads(flask.request.get_data(cache=False)))
    groups = (*request.children.values(), *request.attachments.values())
    answer = {"children": [child for group in groups for child in group.values()]}
    return flask.Response(json.dumps(answer), mimetype="application/json")
