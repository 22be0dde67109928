"""What an exchange hands on is the engine's body, however its bytes were cut on their way."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import Exchange, is_frame
from gateway.replicas import Address
from gateway.upstream import Connection

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class _Client:
    """Takes frames off again, as a client's own parser would."""

    def __init__(self) -> None:
        self.body = b""
        self.frames = 0

    def write(self, data: bytes) -> bool:
        self.body += data
        return False

    def frame(self, data: bytes) -> bool:
        size, _, rest = data.partition(b"\r\n")
        assert rest[int(size, 16) :] == b"\r\n"
        self.body += rest[:-2]
        self.frames += 1
        return False


def _frame(chunk: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


def _relayed(loop: asyncio.AbstractEventLoop, reads: list[bytes]) -> tuple[Exchange, _Client]:
    exchange = Exchange(Connection(Address("127.0.0.1", 1), loop), loop, bodiless=False)
    exchange.feed(HEAD)
    client = _Client()
    exchange.relay(client.write, client.frame)
    for read in reads:
        exchange.feed(read)
    return exchange, client


def test_a_chunk_that_arrives_as_one_read_is_passed_on_in_its_frame(
    loop: asyncio.AbstractEventLoop,
) -> None:
    event = b'data: {"n": 1}\n\n'
    exchange, client = _relayed(loop, [_frame(event)] * 3 + [b"0\r\n\r\n"])
    assert (client.body, client.frames) == (event * 3, 2)
    assert loop.run_until_complete(exchange.finish(within=1))


# Payloads that look like framing themselves, cut anywhere.
_CHUNKS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=40),
        st.sampled_from([b"\r\n" * 8, b"8\r\n12345678\r\n", b"data: x\n\n", b"0\r\n\r\n" * 3]),
    ),
    max_size=6,
)


@given(chunks=_CHUNKS, cuts=st.lists(st.integers(0, 400), max_size=8))
def test_the_body_is_the_same_wherever_its_bytes_were_cut(
    loop: asyncio.AbstractEventLoop, chunks: list[bytes], cuts: list[int]
) -> None:
    wire = b"".join(map(_frame, chunks)) + b"0\r\n\r\n"
    edges = [0, *sorted(cut % len(wire) for cut in cuts), len(wire)]
    reads = [wire[a:b] for a, b in itertools.pairwise(edges) if a < b]
    exchange, client = _relayed(loop, reads)
    assert client.body == b"".join(chunks)
    assert loop.run_until_complete(exchange.finish(within=1))


def test_the_rest_of_a_cut_size_line_is_not_taken_for_a_chunk(
    loop: asyncio.AbstractEventLoop,
) -> None:
    payload = b"x" * 8 + b"\r\n" + b"y" * 14
    assert len(payload) == 0x18
    whole = _frame(payload)
    # From its second byte on it begins like a chunk of eight bytes.
    _, client = _relayed(loop, [_frame(b"data: 1\n\n"), whole[:1], whole[1:14], whole[14:]])
    assert client.body == b"data: 1\n\n" + payload


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\r\n\r\n",
        b"8\r\n1234567\r\n",
        b"8\r\n12345678\r",
        b"8\r\n12345678\r\n8\r\n12345678\r\n",
        b"08\r\n12345678\r\n",
        b"A\r\n1234567890\r\n",
        b"+8\r\n12345678\r\n",
        b"8;x=y\r\n12345678\r\n",
        b"8\n12345678\r\n",
        b"10\r\n1234567890abcde\r\n",  # No chunk has this length.
        b"\r\n1234567890abcdefg\r\n",
    ],
)
def test_only_the_parser_judges_what_is_not_plainly_one_chunk(data: bytes) -> None:
    assert not is_frame(data)


def test_a_chunk_of_any_size_is_known_by_its_length() -> None:
    for size in (*range(8, 5000), 0xFFFF, 0x10000, 0xFFFFF):
        assert is_frame(_frame(b"x" * size)), size
