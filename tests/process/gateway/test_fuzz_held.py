"""What engines may send into streams that are held: their clients have a 200 and heartbeats, so no
status can tell them of a fault any more. Each sees a whole answer, or one error event with its
dialect's end, or a reset; never a clean end of an answer that was torn."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.process.gateway import rig, stubs, wire
from tests.process.gateway.fuzzing import BOUNDED, LIMITS, damaged

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

# Held together and released together, since a cold start takes longer than an answer.
SIDE_BY_SIDE = 16
FEWER = settings(BOUNDED, max_examples=15)
BEAT = b": keep-alive\n\n"
DONE_PATHS = ("/v1/chat/completions", "/v1/completions")
PATHS = (*DONE_PATHS, "/v1/responses", "/v1/messages")
EVENTS = (
    stubs.CHUNK_1,
    stubs.CHUNK_2,
    b": a comment\n\n",
    b'event: delta\ndata: {"a":\ndata: 1}\n\n',
    b"data: with returns\r\n\r\n",
    b"data: \xff\x00\xfe\n\n",
    b"data: " + b"x" * 3000 + b"\n\n",
)
HEAD = b"HTTP/1.1 200 OK\r\n" + stubs.STREAM_TYPE
CLOSES = ("fin", "reset", "half", "silence")


@dataclasses.dataclass(frozen=True)
class Case:
    """``data`` is sent in pieces that end at ``cuts``, and then the connection ends as ``how``
    says. ``text`` is the stream that it would be if it were whole, b"" for an error; ``ends`` are
    the ways of the client's answer to end that are right."""

    path: str
    data: bytes
    cuts: list[int]
    how: str
    text: bytes | None = None
    ends: frozenset[str] = frozenset({"whole", "event", "reset"})


@st.composite
def streams(draw: st.DrawFn) -> Case:
    """A stream as engines send it, and as much of it as they got to."""
    text = b"".join(draw(st.lists(st.sampled_from(EVENTS), max_size=4)))
    framing = draw(st.sampled_from(["chunked", "chunked", "length", "eof"]))
    head, body = _framed(draw, text, framing)
    whole = head + body
    sent = whole[: draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))]
    how = draw(st.sampled_from(CLOSES))
    if framing == "eof" and how in ("fin", "half") and len(sent) >= len(head):
        # The end of the connection is the end of the answer, wherever it comes.
        text = sent[len(head) :]
        ends = {"whole"} if not text or text.endswith((b"\n\n", b"\r\n\r\n")) else {"reset"}
    elif framing != "eof" and sent == whole:
        ends = {"whole"}
    else:
        ends = {"event", "reset"}
    if how == "reset":
        # It may overtake what was sent before it.
        ends |= {"event", "reset"}
    return _case(draw, sent, how, text, ends)


def _framed(draw: st.DrawFn, text: bytes, framing: str) -> tuple[bytes, bytes]:
    if framing == "length":
        return HEAD + b"content-length: %d\r\n\r\n" % len(text), text
    if framing == "eof":
        return HEAD + b"\r\n", text
    borders = [0, *sorted(draw(st.sets(st.integers(1, max(len(text), 1)), max_size=4))), len(text)]
    chunks = [text[a:b] for a, b in itertools.pairwise(borders) if text[a:b]]
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))
    return HEAD + b"transfer-encoding: chunked\r\n\r\n", body


@st.composite
def others(draw: st.DrawFn) -> Case:
    """Whole or in part, what is no plain stream of events can only become an event. Not a 503,
    which is asked again."""
    status = draw(st.sampled_from([200, 204, 301, 304, 400, 401, 404, 429, 500, 502]))
    text = draw(st.sampled_from([b"", b'{"error":"text"}', b'{"error":{"code":4}}', b"\xff<html>"]))
    kind = draw(st.sampled_from([b"application/json", b"text/event-stream", b"text/html"]))
    extra = b""
    if status == 200 and kind == b"text/event-stream":
        extra = b"content-encoding: gzip\r\n"
    head = b"HTTP/1.1 %d Status\r\ncontent-type: %b\r\n%b" % (status, kind, extra)
    whole = head + b"content-length: %d\r\n\r\n%b" % (len(text), text)
    sent = whole[: draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))]
    return _case(draw, sent, draw(st.sampled_from(CLOSES)), b"", {"event"})


@st.composite
def broken(draw: st.DrawFn) -> Case:
    whole = stubs.STREAM_HEAD + b"".join(
        b"%x\r\n%b\r\n" % (len(chunk), chunk)
        for chunk in (stubs.CHUNK_1, stubs.CHUNK_2, stubs.DONE, b"")
    )
    data = draw(damaged(whole))
    how = draw(st.sampled_from(CLOSES))
    chunked = b"transfer-encoding" in data.lower()
    if chunked and how == "silence" and not re.search(rb"\n0+\b", data):
        return _case(draw, data, how, None, {"event", "reset"})
    return _case(draw, data, how, None, {"whole", "event", "reset"})


def _case(draw: st.DrawFn, data: bytes, how: str, text: bytes | None, ends: set[str]) -> Case:
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=3)))
    path = draw(st.sampled_from(PATHS))
    return Case(path, data, [*cuts, len(data)], how, text, frozenset(ends))


class Held:
    """A gateway and an engine that can be cold again as often as it is wanted."""

    def __init__(self, gateway: rig.Gateway, engine: stubs.Engine) -> None:
        self.gateway = gateway
        self._engine = engine
        self._pods = itertools.count()
        self._cases: list[Case] = []
        engine.script = self._misbehave

    async def run(self, cases: list[Case]) -> list[tuple[bytes, bool]]:
        """What the client of each saw after its heartbeats, and whether it ended as HTTP has it."""
        self._cases, self._engine.healthy = cases, 503
        # Another Pod on the same address has to prove itself anew.
        self.gateway.tell(rig.endpoint(self._engine.port, pod=f"pod-{next(self._pods)}"))
        await self.gateway.ready(0)
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(self.gateway.client()) for _ in cases]
            for number, (client, case) in enumerate(zip(clients, cases, strict=True)):
                client.send(wire.post(case.path, {"stream": True, "case": number}))
            heads = [await client.head() for client in clients]
            assert {status for status, _ in heads} == {200}
            self._engine.healthy = 200
            async with asyncio.timeout(30):
                rests = await asyncio.gather(*(client.rest() for client in clients))
            return [_after_beats(*rest) for rest in rests]

    async def _misbehave(self, to: stubs.Wire, received: stubs.Received) -> None:
        asked = json.loads(received.body)
        if "marker" in asked:
            await to.answer(200, received.body)
            return
        case = self._cases[asked["case"]]
        for begin, end in itertools.pairwise([0, *case.cuts]):
            await to.write(case.data[begin:end])
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        match case.how:
            case "fin":
                to.close()
            case "reset":
                to.reset()
            case "half":
                to.writer.write_eof()
                await to.left()
            case _:
                # It waits for the next request, and answers it properly.
                return


def _after_beats(body: bytes, complete: bool) -> tuple[bytes, bool]:
    """A reset may overtake what came before it, but nothing else may be missing."""
    assert body.startswith(BEAT) or not (body or complete)
    while body.startswith(BEAT):
        body = body.removeprefix(BEAT)
    return body, complete


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def held(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Held]:
    async with (
        rig.Gateway(tmp_path_factory.mktemp("held"), *LIMITS) as gateway,
        stubs.Engine() as engine,
    ):
        yield Held(gateway, engine)
        gateway.tell()
        await gateway.ready(0)
        await gateway.settled()
        gateway.no_faults()


@FEWER
@given(st.lists(st.one_of(streams(), others(), broken()), min_size=8, max_size=SIDE_BY_SIDE))
async def test_whatever_joins_a_held_stream_its_client_never_takes_half_an_answer_for_a_whole_one(
    held: Held, cases: list[Case]
) -> None:
    for case, (body, complete) in zip(cases, await held.run(cases), strict=True):
        error = _error_end(case.path, body)
        end = "reset" if not complete else "whole" if error is None else "event"
        assert end in case.ends, (case, body)
        if case.text is not None:
            stem = body.removesuffix(error or b"")
            assert case.text.startswith(stem), (case, body)
            assert end != "whole" or stem == case.text, (case, body)
    marker = json.dumps({"marker": cases[0].data[:20].hex()}).encode()
    answer = await held.gateway.ask(wire.post(PATHS[0], marker))
    assert (answer.status, answer.body) == (200, marker)


def _error_end(path: str, body: bytes) -> bytes | None:
    """The error event that ``body`` ends with, in the dialect of ``path``, and the dialect's end;
    None where it has none. It has one at most."""
    pattern = rb"data: (\{[^\n]*\})\n\ndata: \[DONE\]\n\n\Z"
    if path not in DONE_PATHS:
        pattern = rb"event: error\ndata: (\{[^\n]*\})\n\n\Z"
    found = re.search(pattern, body)
    event: Any = None
    if found is not None:
        with contextlib.suppress(ValueError):
            event = json.loads(found[1])
    if found is None or not isinstance(event, dict) or "error" not in event:
        return None
    before = body[: found.start()]
    assert b'"error":{' not in before, body
    assert not before or before.endswith((b"\n\n", b"\r\n\r\n")), "an event of its own"
    return found[0]
