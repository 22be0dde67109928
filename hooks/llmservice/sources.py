"""Model source URIs, parsed once into one of four kinds."""

import dataclasses
import re

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REVISION = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
_CLAIM = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"


class SourceError(ValueError):
    """A URI that is no model source; the message says what was found and what is expected."""


@dataclasses.dataclass(frozen=True)
class Hub:
    """A repository of the Hugging Face hub. An empty revision is the hub's own default."""

    repository: str
    revision: str


@dataclasses.dataclass(frozen=True)
class ModelScope:
    """A repository of ModelScope. An empty revision is the hub's own default."""

    repository: str
    revision: str


@dataclasses.dataclass(frozen=True)
class Oci:
    """An artifact in a registry, pinned by its digest."""

    reference: str
    digest: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """Weights that stand on a claim already. An empty subpath is the volume's root."""

    name: str
    subpath: str


Source = Hub | ModelScope | Oci | Claim


def uri(source: Hub | ModelScope | Oci) -> str:
    """The one spelling of a source that can be fetched; aliases of a scheme are told alike."""
    match source:
        case Hub(repository, revision):
            return f"hf://{repository}" + (f"@{revision}" if revision else "")
        case ModelScope(repository, revision):
            return f"modelscope://{repository}" + (f"@{revision}" if revision else "")
        case Oci(reference, digest):
            return f"oci://{reference}@{digest}"


def parse(uri: str) -> Source:
    """The source that ``uri`` names. Raises SourceError."""
    scheme, _, rest = uri.partition("://")
    match scheme:
        case "hf" | "huggingface":
            return Hub(*_repository(uri, rest))
        case "modelscope":
            return ModelScope(*_repository(uri, rest))
        case "oci":
            return _oci(uri, rest)
        case "pvc":
            return _claim(uri, rest)
        case _:
            raise SourceError(
                f"{uri!r} is no model source; expected hf://, modelscope://, oci:// or pvc://"
                + _meant(uri)
            )


def _meant(uri: str) -> str:
    """A hint for a model that is named as its hub's page and other programs name it."""
    path = re.sub(r"^(https?://)?(huggingface\.co|hf\.co)/", "", uri)
    return f"; did you mean hf://{path}?" if re.fullmatch(f"{_PART}/{_PART}", path) else ""


def _repository(uri: str, rest: str) -> tuple[str, str]:
    match = re.fullmatch(f"({_PART}/{_PART})(@({_REVISION}))?", rest)
    if match is None or ".." in rest:
        raise SourceError(f"{uri!r} does not name a repository; expected ORG/NAME[@REVISION]")
    return match[1], match[3] or ""


def _oci(uri: str, rest: str) -> Oci:
    match = re.fullmatch(r"([^@\s]+/[^@\s]+)@(sha256:[0-9a-f]{64})", rest)
    if match is None:
        raise SourceError(
            f"{uri!r} is not pinned; expected oci://REGISTRY/REPOSITORY@sha256:DIGEST with 64"
            " hexadecimal digits"
        )
    return Oci(match[1], match[2])


def _claim(uri: str, rest: str) -> Claim:
    name, _, subpath = rest.partition("/")
    if not re.fullmatch(_CLAIM, name) or len(name) > 253:
        raise SourceError(f"{uri!r} does not name a claim; expected pvc://CLAIM[/SUBPATH]")
    parts = subpath.rstrip("/").split("/") if subpath else []
    if any(part in ("", ".", "..") for part in parts):
        raise SourceError(f"the path of {uri!r} must not have empty, . or .. parts")
    if not subpath.isprintable():
        raise SourceError(f"the path of {uri!r} must not have control characters")
    return Claim(name, "/".join(parts))
