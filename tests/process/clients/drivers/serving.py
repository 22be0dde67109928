"""What every driver does: read one call a line, make it as a user would, say what the user saw.

A driver runs in its client's own environment, so it imports nothing of ours but this module, and
this one only the standard library. ``openai_node.cjs`` speaks the same lines.
"""

import concurrent.futures
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# Every call has its own thread: a held one must not hold up the rest.
_AT_ONCE = 64


class Call:
    """``timeout`` in seconds is what a user gives the client; None leaves the client's default."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.kind: str = line["kind"]
        self.client: str = line["client"]
        self.base: str = line["base"]
        self.key: str = line["key"]
        self.model: str = line["model"]
        self.text: str = "x" * line["size"] or "hello"
        self.retries: int = line["retries"]
        self.timeout: float | None = line["timeout"]
        self.chunk_timeout: float | None = line["chunk_timeout"]
        self.headers = {"x-request-id": line["id"]}

    @property
    def messages(self) -> list[Any]:
        return [{"role": "user", "content": self.text}]


# Yields the answer's text as it comes, and raises what the client raises.
User = Callable[[Call], Iterator[str]]


def serve(user: User, *, version: str) -> None:
    """Until standard input ends. The first line out is the client's ``version``."""
    # Some libraries print: what they say must not get between the lines.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with lock:
            print(json.dumps(line), file=out, flush=True)

    say({"version": version})
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        for text in sys.stdin:
            pool.submit(lambda line: say(_use(user, line)), json.loads(text))


def _use(user: User, line: dict[str, Any]) -> dict[str, Any]:
    seen: dict[str, Any] = {"id": line["id"], "text": "", "error": None}
    began = time.monotonic()
    try:
        for part in user(Call(line)):
            seen["text"] += part
    except BaseException as e:  # noqa: BLE001 - whatever it is, the user would see it.
        seen["error"] = _described(e)
    seen["seconds"] = time.monotonic() - began
    return seen


def _described(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    code = getattr(error, "code", None)
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return {
        "kind": getattr(error, "kind", name),
        "status": getattr(error, "status_code", None),
        "code": None if code is None else str(code),
        "message": str(error),
    }
