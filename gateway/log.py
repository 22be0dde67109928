"""Structured logs: one JSON object a line on stderr, a constant event and facts as fields."""

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
    try:
        sys.stderr.write(json.dumps(line, default=str) + "\n")
    except (OSError, ValueError):
        # A full disk or a closed pipe below stderr: serving goes on without a log.
        return


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None and record.exc_info[0] is not None:
            facts["exception"] = logging.Formatter().formatException(record.exc_info)
        _write(_LEVELS.get(record.levelno, "error"), "library", facts)
