"""What a request may do, from its method and path alone. Denied by default.

The one allow-list works on the decoded path, since that is what the engine will match; what is
forwarded is the raw one, byte for byte. A path that is not in its normal form is refused rather
than repaired: two readers of one path could disagree.
"""

import dataclasses
import enum
import functools
from urllib.parse import unquote_to_bytes

# The engine's own inference routes outside /v1/.
_ENGINE_PATHS = frozenset(
    {
        "/tokenize",
        "/detokenize",
        "/pooling",
        "/classify",
        "/score",
        "/rerank",
        "/invocations",
    }
)
# Under /v1/, but they change the engine instead of asking it.
_ADMINISTRATION = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})


class Kind(enum.Enum):
    INFERENCE = enum.auto()  # May wake the model.
    LOOKUP = enum.auto()  # Goes to a warm backend, wakes nothing.
    OWN = enum.auto()  # Answered by the gateway itself.
    NOWHERE = enum.auto()
    METHOD_NOT_ALLOWED = enum.auto()


OWN_PATHS = frozenset({"/healthz", "/readyz", "/metrics", "/noctaya/queue"})


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """``path`` is decoded and normal; ``raw`` is path and query as the client wrote them."""

    kind: Kind
    path: str
    raw: str


# Clients send the same few over and over.
@functools.lru_cache(maxsize=256)
def target(method: str, raw: str, *, extra_paths: frozenset[str]) -> Target:
    """``raw`` is the request target of the request line; ``extra_paths`` extend the allow-list."""
    raw = _origin_form(raw)
    path = _normal(raw.partition("?")[0])
    if path is None:
        return Target(Kind.NOWHERE, "", raw)
    return Target(_kind(method, path, extra_paths), path, raw)


def _kind(method: str, path: str, extra_paths: frozenset[str]) -> Kind:
    if path in OWN_PATHS:
        return Kind.OWN if method in ("GET", "HEAD") else Kind.METHOD_NOT_ALLOWED
    if not _allowed(path, extra_paths):
        return Kind.NOWHERE
    if method == "POST":
        return Kind.INFERENCE
    return Kind.LOOKUP if method not in ("CONNECT", "TRACE") else Kind.METHOD_NOT_ALLOWED


def _allowed(path: str, extra_paths: frozenset[str]) -> bool:
    if path.rstrip("/") in _ADMINISTRATION:
        return False
    return path.startswith("/v1/") or path in _ENGINE_PATHS or path in extra_paths


def _origin_form(raw: str) -> str:
    """``GET http://host/x`` is legal and means ``/x``; the host in it is never followed."""
    if raw.startswith("/"):
        return raw
    scheme, separator, rest = raw.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return raw
    slash = rest.find("/")
    return rest[slash:] if slash >= 0 else "/"


def _normal(raw_path: str) -> str | None:
    """The decoded path, or None where it has no single meaning."""
    if not raw_path.startswith("/") or "#" in raw_path:
        return None
    if "%" not in raw_path:
        path = raw_path
    else:
        try:
            path = unquote_to_bytes(raw_path).decode()
        except UnicodeDecodeError:
            return None
    odd = "//" in path or "%" in path or "\\" in path or not path.isprintable()
    if odd or "/./" in path or "/../" in path or path.endswith(("/.", "/..")):
        return None
    return path
