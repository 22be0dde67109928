import pytest

from gateway.authentication import key, token


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"key", b"key"),
        (b"key\n", b"key"),
        (b" \tkey\r\n", b"key"),
        (b"Bearer key\n", b"key"),
        ("schl\u00fcssel".encode(), "schl\u00fcssel".encode()),
        (b"", None),
        (b"\n", None),
    ],
)
def test_a_key_is_what_a_person_meant_to_store(content: bytes, expected: bytes | None) -> None:
    assert key(content) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["Bearer key"], b"key"),
        (["bearer  key "], b"key"),
        (["BEARER \udcff\u00e9"], b"\xff\xc3\xa9"),
        (["Bearer"], b""),
        (["Basic key"], None),
        (["key"], None),
        ([], None),
        (["Bearer key", "Bearer key"], None),
    ],
)
def test_a_token_is_read_from_one_bearer_header(headers: list[str], expected: bytes | None) -> None:
    assert token(headers) == expected
