import tracemalloc

import pytest

from gateway import asks
from gateway.asks import Ask
from gateway.errors import Refusal


def read(body: bytes, kind: str | None = "application/json", coding: str | None = None) -> Ask:
    return asks.read(body, content_type=kind, content_encoding=coding)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m","stream":true}', Ask(model="m", stream=True)),
        (b'{"model":"a","model":"b"}', Ask(model="b", stream=False)),
        (b'{"model":"","stream":"true"}', Ask(model=None, stream=False)),
        (b'{"model":null,"stream":1}', Ask(model=None, stream=False)),
        (b"\xef\xbb\xbf{}", Ask(model=None, stream=False)),
    ],
)
def test_a_body_is_read_as_the_engine_reads_it(body: bytes, expected: Ask) -> None:
    assert read(body) == expected


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/x+json", None])
def test_json_and_a_missing_type_are_parsed(kind: str | None) -> None:
    assert read(b'{"model":"m"}', kind).model == "m"


@pytest.mark.parametrize(
    ("kind", "coding"),
    [("multipart/form-data; boundary=x", None), ("audio/wav", None), ("application/json", "gzip")],
)
def test_what_cannot_be_parsed_here_is_not_judged_here(kind: str, coding: str | None) -> None:
    assert read(b"\x1f\x8b", kind, coding) is asks.OPAQUE


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain"])
def test_json_under_another_type_names_its_model_and_is_no_stream(kind: str) -> None:
    assert read(b'{"model":"m","stream":true}', kind) == Ask(model="m", stream=False)
    for body in (b"model=m", b'["model"]', b'{"model":"m"', b""):
        assert read(body, kind) is asks.OPAQUE


def test_the_message_never_quotes_the_body() -> None:
    with pytest.raises(Refusal) as caught:
        read(b'{"api_key": sk-secret}')
    assert caught.value.status == 400
    assert "secret" not in caught.value.message


def test_no_names_means_any_name() -> None:
    asks.check_model(Ask(model="x", stream=False), frozenset())
    asks.check_model(Ask(model=None, stream=False), frozenset({"m"}))
    with pytest.raises(Refusal, match="served: m"):
        asks.check_model(Ask(model="x", stream=False), frozenset({"m"}))


def test_a_body_is_looked_at_without_being_built() -> None:
    """As Python objects this one would take more than fifty times its size."""
    body = b'{"model":"m","stream":true,"x":[' + b"[]," * 2**20 + b"[]]}"
    tracemalloc.start()
    try:
        ask = read(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ask == asks.Ask(model="m", stream=True)
    assert peak < len(body)
