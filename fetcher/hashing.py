"""Hashes as hubs and registries state them."""

import hashlib
import typing

from fetcher import plans


class Hash(typing.Protocol):
    """The part of hashlib's objects that is used here."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def sha256() -> Hash:
    return hashlib.sha256()


def start(proof: plans.Proof, size: int) -> Hash:
    """A hash that ends equal to `proof.hex` if the right `size` bytes go in."""
    if proof.algorithm == "sha256":
        return hashlib.sha256()
    # git's own name of a blob: a header, then the content. It is what the Hub states for files
    # outside LFS, and what the commit id itself rests on.
    assert proof.algorithm == "git-sha1", proof.algorithm
    blob = hashlib.sha1(usedforsecurity=False)
    blob.update(b"blob %d\0" % size)
    return blob
