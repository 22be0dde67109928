"""Structured logs: one JSON object a line on stderr, a constant event and facts as fields."""

import asyncio
import json
import logging
import sys
import time
from typing import Any

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
    line = {"ts": round(time.time(), 6), "level": level, "event": event, **facts}
    _LINES.append(json.dumps(line, default=str) + "\n")
    _flush_soon()


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
    _LINES.append(
        f'{{"ts": {time.time():.6f}, "level": "info", "event": "request", '
        f'"request_id": "{request_id}", "method": {_quote(method)}, "path": {_quote(path)}, '
        f'"status": {"null" if status is None else status}, "outcome": "{outcome}", '
        f'"duration": {duration:.6f}{more}}}\n'
    )
    _flush_soon()


# Lines of one turn of the event loop leave in one write.
_LINES: list[str] = []
_quote = json.encoder.encode_basestring_ascii


def _flush_soon() -> None:
    if len(_LINES) > 1:
        return
    try:
        asyncio.get_running_loop().call_soon(flush)
    except RuntimeError:
        # Before the loop runs, and after it.
        flush()


def flush() -> None:
    text = "".join(_LINES)
    _LINES.clear()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        # A full disk or a closed pipe below stderr: serving goes on without a log.
        return


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None and record.exc_info[0] is not None:
            facts["exception"] = logging.Formatter().formatException(record.exc_info)
        _write(_LEVELS.get(record.levelno, "error"), "library", facts)
