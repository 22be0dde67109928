"""Structured logs: one JSON object a line on stderr, a constant event and facts as fields."""

import asyncio
import json
import logging
import time
from typing import Any

from gateway.stderr import Stderr

_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning"}


def info(event: str, **facts: Any) -> None:
    _write("info", event, facts)


def warning(event: str, **facts: Any) -> None:
    _write("warning", event, facts)


def error(event: str, **facts: Any) -> None:
    _write("error", event, facts)


def capture_libraries() -> None:
    """Send what libraries log, from warnings up, down the same way."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Handler()], force=True)


def _write(level: str, event: str, facts: dict[str, Any]) -> None:
    line = _line(level, event, facts)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # Before the loop runs, after it, or in one of gRPC's threads.
        _STDERR.write(line.encode())
    else:
        _append(line)


def _line(level: str, event: str, facts: dict[str, Any]) -> str:
    line = {"ts": round(time.time(), 6), "level": level, "event": event, **facts}
    return json.dumps(line, default=str) + "\n"


def request(
    *,
    request_id: str,
    method: str,
    path: str,
    status: int | None,
    outcome: str,
    duration: float,
    replica: str | None,
    **facts: Any,
) -> None:
    """The line of a request's end: like ``info("request", ...)`` at a third of its cost, which
    every request has to pay. Only ``method`` and ``path`` may need escaping."""
    more = f", {json.dumps(facts)[1:-1]}" if facts else ""
    if replica is not None:
        more = f', "replica": "{replica}"{more}'
    _append(
        f'{{"ts": {time.time():.6f}, "level": "info", "event": "request", '
        f'"request_id": "{request_id}", "method": {_quote(method)}, "path": {_quote(path)}, '
        f'"status": {"null" if status is None else status}, "outcome": "{outcome}", '
        f'"duration": {duration:.6f}{more}}}\n'
    )


def _dropped(count: int) -> bytes:
    return _line("warning", "log lines dropped", {"lines": count}).encode()


# Lines of one turn of the event loop leave in one write.
_LINES: list[str] = []
_STDERR = Stderr(2, _dropped)
# Seconds, twice. Little against the grace that a Pod has, much for a reader that is only slow.
_READERS_GRACE = 2.0
_quote = json.encoder.encode_basestring_ascii


def _append(line: str) -> None:
    _LINES.append(line)
    if len(_LINES) == 1:
        asyncio.get_running_loop().call_soon(flush)


def flush() -> None:
    text = "".join(_LINES)
    _LINES.clear()
    _STDERR.write(text.encode())


def last_words(event: str) -> None:
    """Before the process ends; a slow reader gets a moment for what it did not take yet, since the
    last line and the count of those that were dropped find no place behind it, and one for them."""
    flush()
    _STDERR.finish(within=_READERS_GRACE)
    info(event)
    flush()
    _STDERR.finish(within=_READERS_GRACE)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None and record.exc_info[0] is not None:
            facts["exception"] = logging.Formatter().formatException(record.exc_info)
        _write(_LEVELS.get(record.levelno, "error"), "library", facts)
