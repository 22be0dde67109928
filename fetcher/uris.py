"""Parses a model URI to one of three sources; nothing else in the package looks at a URI."""

import dataclasses
import re
import string
import urllib.parse

from fetcher import errors

# What both hubs allow in an owner's or a model's name; "." alone and ".." are excluded below.
_HUB_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?")
# Branches, tags, commits and refs/pr/1. Git allows more; more is not worth the doubt.
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+-]*)*")
_REGISTRY = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
)
_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class HubModel:
    """A repository of the Hugging Face Hub, or of a mirror named by HF_ENDPOINT."""

    owner: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"hf://{self.owner}/{self.name}@{self.revision}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelScopeModel:
    """A repository of ModelScope."""

    owner: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"modelscope://{self.owner}/{self.name}@{self.revision}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """One artifact of an OCI registry, pinned by the digest of its manifest."""

    registry: str
    repository: str
    digest: str

    def __str__(self) -> str:
        return f"oci://{self.registry}/{self.repository}@{self.digest}"


Source = HubModel | ModelScopeModel | Artifact


def is_commit(revision: str) -> bool:
    """Whether a revision is a full commit id, which nothing can move."""
    return _COMMIT.fullmatch(revision) is not None


def is_digest(text: object) -> bool:
    """Whether a remote's word is a sha256 digest and nothing more."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def parse(uri: str, *, revision: str | None = None) -> Source:
    """Read a URI; `revision` is the command's, which may repeat the URI's but not contradict it."""
    scheme, separator, rest = uri.partition("://")
    match scheme.lower() if separator else "":
        case "hf" | "huggingface":
            owner, name, found = _hub_parts(uri, rest, revision, default="main")
            return HubModel(owner=owner, name=name, revision=found)
        case "modelscope":
            owner, name, found = _hub_parts(uri, rest, revision, default="master")
            return ModelScopeModel(owner=owner, name=name, revision=found)
        case "oci":
            return _artifact(uri, rest, revision)
        case "pvc":
            raise errors.Usage(f"{uri!r} names files that are already there: nothing to stage")
        case _:
            raise errors.Usage(
                f"{uri!r} has no known scheme: expected hf://ORG/NAME[@REVISION], "
                "modelscope://ORG/NAME[@REVISION] or oci://REGISTRY/REPOSITORY@sha256:DIGEST"
            )


def _hub_parts(uri: str, rest: str, asked: str | None, *, default: str) -> tuple[str, str, str]:
    path, separator, revision = rest.partition("@")
    if separator and not revision:
        raise errors.Usage(f"{uri!r} ends in '@': name a revision after it, or leave it out")
    if asked is not None and revision and asked != revision:
        raise errors.Usage(f"{uri!r} asks for one revision, --revision {asked!r} for another")
    parts = path.split("/")
    if len(parts) != 2 or not all(_is_hub_name(part) for part in parts):
        raise errors.Usage(f"{uri!r} does not name a model: expected SCHEME://ORG/NAME[@REVISION]")
    wanted = revision or asked or default
    if not _REVISION.fullmatch(wanted) or ".." in wanted or len(wanted) > 200:
        raise errors.Usage(f"{wanted!r} is not a revision: expected a branch, a tag or a commit")
    return parts[0], parts[1], wanted


def _is_hub_name(part: str) -> bool:
    # "--" joins owner and name in the cache's folder names, where it must stay unambiguous.
    return _HUB_NAME.fullmatch(part) is not None and "--" not in part and ".." not in part


def _artifact(uri: str, rest: str, revision: str | None) -> Artifact:
    if revision is not None:
        raise errors.Usage("--revision does not go with oci://: the digest is the revision")
    registry, _, path = rest.partition("/")
    repository, separator, digest = path.partition("@")
    if not separator or not is_digest(digest):
        raise errors.Usage(
            f"{uri!r} is not pinned: expected oci://REGISTRY/REPOSITORY@sha256:<64 hex digits> "
            "(a tag can move, so tags are not taken)"
        )
    if not _REGISTRY.fullmatch(registry) or not _REPOSITORY.fullmatch(repository):
        raise errors.Usage(
            f"{uri!r} does not name an artifact: expected oci://REGISTRY[:PORT]/REPOSITORY@sha256:..."
        )
    return Artifact(registry=registry, repository=repository, digest=digest)


def without_secrets(url: str) -> str:
    """A URL fit for a log: without signed queries and user names, and in printable characters."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    shown = urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))
    return urllib.parse.quote(shown, safe=string.punctuation, errors="replace")
