"""curl, as a user with a terminal calls an endpoint; it shows bytes, which are read here."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.process.clients.drivers import serving

_PATHS = {
    "plain": "/v1/chat/completions",
    "stream": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


class Printed(Exception):
    """What a user finds on the screen; ``status_code`` and the rest as other clients have them."""

    def __init__(self, ended: subprocess.CompletedProcess[str], error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message") or error))
        self.kind = f"exit {ended.returncode}"
        self.status_code = int(ended.stdout)
        self.code = error["code"] if "code" in error else error.get("type")


class Failed(Exception):
    """curl's own complaint."""

    def __init__(self, ended: subprocess.CompletedProcess[str]) -> None:
        super().__init__(ended.stderr.strip())
        self.kind = f"exit {ended.returncode}"


def use(call: serving.Call) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _used(call, Path(folder))


def _used(call: serving.Call, folder: Path) -> Iterator[str]:
    body: dict[str, Any] = {"model": call.model, "stream": call.kind != "plain"}
    body |= {"input": call.text} if call.kind == "responses" else {"messages": call.messages}
    (folder / "body").write_text(json.dumps(body))
    got = folder / "got"
    command = [
        *("curl", "--silent", "--show-error", "--fail-with-body", "--no-buffer"),
        *("--header", "content-type: application/json", "--data-binary", f"@{folder / 'body'}"),
        *("--header", f"authorization: Bearer {call.key}"),
        *("--header", f"x-request-id: {call.headers['x-request-id']}"),
        *("--retry", str(call.retries), "--output", str(got), "--write-out", "%{http_code}"),
    ]
    if call.timeout is not None:
        # Its only limit between bytes: slower than one byte a second, for so many seconds.
        command += ["--speed-limit", "1", "--speed-time", str(round(call.timeout))]
    ended = subprocess.run(
        [*command, call.base + _PATHS[call.kind]], capture_output=True, text=True
    )
    printed = got.read_text() if got.exists() else ""
    yield from _shown(printed, ended)
    if ended.returncode:
        raise Failed(ended)


def _shown(printed: str, ended: subprocess.CompletedProcess[str]) -> Iterator[str]:
    """The answer's text; raises Printed where the body or an event of it is an error."""
    objects = [printed]
    if not printed.startswith("{"):
        # A line that did not end is half an event, which a reader sees for itself.
        lines = printed.split("\n")[:-1]
        objects = [line[6:] for line in lines if line.startswith("data: {")]
    for text in objects:
        try:
            said = json.loads(text)
        except ValueError:
            return
        if isinstance(said.get("error"), dict):
            raise Printed(ended, said["error"])
        yield _text(said)


def _text(said: dict[str, Any]) -> str:
    delta = said.get("delta")
    if isinstance(delta, dict):
        return str(delta.get("text", ""))
    if isinstance(delta, str):
        return delta
    choice = (said.get("choices") or [{}])[0]
    return str((choice.get("delta") or choice.get("message") or {}).get("content") or "")


if __name__ == "__main__":
    first = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    serving.serve(use, version=first.stdout.split(" ")[1])
