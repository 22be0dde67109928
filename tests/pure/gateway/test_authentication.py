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
        ([b"Bearer key"], b"key"),
        ([b"bearer  key "], b"key"),
        ([b"BEARER \xff"], b"\xff"),
        ([b"Bearer"], b""),
        ([b"Basic key"], None),
        ([b"key"], None),
        ([], None),
        ([b"Bearer key", b"Bearer key"], None),
    ],
)
def test_a_token_is_read_from_one_bearer_header(
    headers: list[bytes], expected: bytes | None
) -> None:
    assert token(headers) == expected
