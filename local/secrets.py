"""Secrets among the user's manifests, of which a run takes what a cluster would mount.

No line that is printed holds a value of theirs.
"""

import base64
import binascii
from collections.abc import Iterator

from hooks.api import parse
from hooks.k8s import objects
from local.documents import Document

KIND = "Secret"
API_VERSION = "v1"
FIELDS = ("apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData")


def problems(document: Document) -> Iterator[str]:
    """What an API server would refuse of the values."""
    for field in document.value:
        if field not in FIELDS:
            nearest = parse.nearest(field, list(FIELDS))
            yield f"{document.place(field)}: unknown field{nearest}"
    for field in ("data", "stringData"):
        values = document.value.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield f"{document.place(field)}: expected a value for each key"
            continue
        for key, text in values.items():
            place = document.place(f"{field}.{key}")
            if not isinstance(text, str):
                yield f"{place}: expected text: quote numbers, true and false"
            elif field == "data" and _decoded(text) is None:
                yield f"{place}: not base64; stringData takes the text as it is"


def value(document: Document, key: str) -> bytes | None:
    """A key's value; None where the Secret has no such key."""
    text = objects.mapping(document.value, "stringData").get(key)
    if text is not None:
        return str(text).encode()
    encoded = objects.mapping(document.value, "data").get(key)
    return None if encoded is None else _decoded(encoded)


def _decoded(text: str) -> bytes | None:
    """As an API server decodes: line breaks count for nothing."""
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return None
