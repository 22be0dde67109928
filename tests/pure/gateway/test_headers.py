from gateway import headers


def test_repeated_headers_and_their_order_are_kept() -> None:
    raw = [(b"Set-Cookie", b"a"), (b"X", b"1"), (b"set-cookie", b"b")]
    assert headers.to_client(raw) == raw


def test_headers_named_by_connection_go_with_it() -> None:
    raw = [(b"X-Hop", b"1"), (b"Connection", b"close, X-HOP"), (b"connection", b"x-two")]
    raw += [(b"x-two", b"2"), (b"x-three", b"3")]
    assert headers.to_engine(raw, identity=False, authenticated=False) == [(b"x-three", b"3")]


def test_connection_cannot_take_away_what_is_written_anew() -> None:
    raw = [(b"connection", b"content-length, host"), (b"host", b"h"), (b"content-length", b"1")]
    assert headers.to_engine(raw, identity=False, authenticated=False) == []


def test_a_stream_that_began_uncompressed_goes_on_uncompressed() -> None:
    raw = [(b"Accept-Encoding", b"gzip"), (b"a", b"b")]
    assert headers.to_engine(raw, identity=True, authenticated=False) == [
        (b"a", b"b"),
        (b"accept-encoding", b"identity"),
    ]
    assert headers.to_engine(raw, identity=False, authenticated=False) == raw


def test_a_key_that_was_checked_here_does_not_reach_the_engine() -> None:
    raw = [(b"Authorization", b"Bearer x"), (b"a", b"b")]
    assert headers.to_engine(raw, identity=False, authenticated=True) == [(b"a", b"b")]
    assert headers.to_engine(raw, identity=False, authenticated=False) == raw


def test_a_stream_of_events_tells_proxies_not_to_buffer_it() -> None:
    """nginx buffers by default; what an engine says of it itself stays."""
    stream = [(b"Content-Type", b"text/event-stream; charset=utf-8")]
    unbuffered = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    assert headers.to_client(stream) == stream + unbuffered
    own = [*stream, (b"Cache-Control", b"no-store"), (b"X-Accel-Buffering", b"yes")]
    assert headers.to_client(own) == own
    plain = [(b"content-type", b"application/json")]
    assert headers.to_client(plain) == plain
