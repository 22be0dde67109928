"""Header lists as bytes, on their way through: hop-by-hop ones stay behind, order is kept."""

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

# RFC 9110 7.6.1, and the older names that mean the same.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_ORDINARY = {b"keep-alive", b"close"}
# The body was read and is framed anew; the id is ours; Expect was answered here.
_REQUEST_ONLY = _HOP_BY_HOP | {b"content-length", b"expect", b"x-request-id"}
_REQUEST_AND_KEY = _REQUEST_ONLY | {b"authorization"}
_RESPONSE_ONLY = _HOP_BY_HOP | {b"content-length", b"x-request-id"}
# Proxies in front, nginx by default, would hold a stream's events back; engines do not say this.
UNBUFFERED: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


def to_engine(
    raw: Iterable[tuple[bytes, bytes]], *, identity: bool, authenticated: bool
) -> Headers:
    """``identity`` asks for an uncompressed answer: the stream it goes into has begun as such.
    ``authenticated``: the key was for the gateway and is not the engine's business."""
    kept = _without(raw, _REQUEST_AND_KEY if authenticated else _REQUEST_ONLY)
    if identity:
        kept = [(n, v) for n, v in kept if n.lower() != b"accept-encoding"]
        kept.append((b"accept-encoding", b"identity"))
    return kept


def to_client(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What the engine said, and for a stream of events that it is not to be buffered."""
    kept = _without(raw, _RESPONSE_ONLY)
    kind = find(kept, b"content-type")
    if kind is not None and kind.lower().startswith(b"text/event-stream"):
        kept += [header for header in UNBUFFERED if find(kept, header[0]) is None]
    return kept


def find(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of ``name`` (lower case)."""
    for n, v in headers:
        if n.lower() == name:
            return v
    return None


def _without(raw: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    kept: Headers = []
    named: set[bytes] = set()
    for header in raw:
        lower = header[0].lower()
        if lower not in dropped:
            kept.append(header)
        elif lower == b"connection":
            named.update(token.strip().lower() for token in header[1].split(b","))
    if named - _ORDINARY:
        kept = [header for header in kept if header[0].lower() not in named]
    return kept
