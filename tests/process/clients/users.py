"""The clients, each a process of its own that makes calls as its users would."""

import asyncio
import dataclasses
import enum
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.process.clients import environments

_DRIVERS = Path(__file__).with_name("drivers")
# Longer than any call may take, the one that waits for half a minute included.
_LIMIT = 120.0


class Kind(enum.StrEnum):
    """What is called: a chat completion as a whole or as a stream, or another endpoint's stream."""

    PLAIN = "plain"
    STREAM = "stream"
    RESPONSES = "responses"
    MESSAGES = "messages"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Client:
    """``process``: clients of the same one share it. ``codes``: whether its errors keep the code
    that was sent, and do not put another in its place or none."""

    id: str
    title: str
    process: str
    kinds: frozenset[Kind]
    codes: bool


_CHAT = frozenset({Kind.PLAIN, Kind.STREAM})
_ALL_OF_OPENAI = _CHAT | {Kind.RESPONSES}


def _client(
    id_: str, title: str, kinds: frozenset[Kind], *, process: str = "", codes: bool = True
) -> Client:
    return Client(id=id_, title=title, process=process or id_, kinds=kinds, codes=codes)


CLIENTS = (
    _client("openai-1", "openai-python 1", _ALL_OF_OPENAI),
    _client("openai-2", "openai-python 2", _ALL_OF_OPENAI),
    _client("openai-3", "openai-python 3", _ALL_OF_OPENAI),
    _client("openai-node", "openai-node", _ALL_OF_OPENAI),
    _client("langchain", "LangChain", _ALL_OF_OPENAI),
    _client("langchain-async", "LangChain, async", _ALL_OF_OPENAI, process="langchain"),
    # It streams /v1/responses only where it knows the model, and knows OpenAI's alone.
    _client("litellm", "LiteLLM", _CHAT, codes=False),
    _client("anthropic", "anthropic-python", frozenset({Kind.MESSAGES}), codes=False),
    _client("curl", "curl", frozenset(Kind)),
)
PROCESSES = tuple(dict.fromkeys(client.process for client in CLIENTS))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Error:
    """``kind`` is the exception's class with the package that it is from, or curl's exit code."""

    kind: str
    status: int | None
    code: str | None
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seen:
    """What a user saw of one call: the text that came, and the error that ended it."""

    text: str
    error: Error | None
    seconds: float


class Process:
    """Runs one client; raises Unavailable on entry where this machine cannot have it."""

    def __init__(self, name: str, log: Path) -> None:
        self._name = name
        self._log = log
        self._answers: dict[str, asyncio.Future[Seen]] = {}
        self.version = ""

    async def __aenter__(self) -> Self:
        line = await asyncio.to_thread(command, self._name)
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=environments.ROOT,
            )
        self.version = (await self._line())["version"]
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        await self._process.wait()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def call(self, line: dict[str, Any]) -> Seen:
        answer = self._answers[line["id"]] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        return await asyncio.wait_for(answer, _LIMIT)

    async def _read(self) -> None:
        while True:
            line = await self._line()
            error = line["error"]
            seen = Seen(
                text=line["text"],
                error=None if error is None else Error(**error),
                seconds=line["seconds"],
            )
            self._answers.pop(line["id"]).set_result(seen)

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        text = await self._process.stdout.readline()
        assert text, f"the process of {self._name} ended: {self._log.read_text()[-2000:]}"
        line: dict[str, Any] = json.loads(text)
        return line


def command(name: str) -> list[str]:
    if name == "openai-node":
        script = str(_DRIVERS / "openai_node.cjs")
        return [environments.program("node"), script, str(environments.node(name))]
    if name == "curl":
        environments.program("curl")
        return _driver(Path(sys.executable), "curl")
    driver = {"langchain": "langchain", "litellm": "litellm_python"}
    driver |= {"anthropic": "anthropic_python"}
    return _driver(environments.python(name), driver.get(name, "openai_python"))


def _driver(interpreter: Path, module: str) -> list[str]:
    return [str(interpreter), "-m", f"tests.process.clients.drivers.{module}"]
