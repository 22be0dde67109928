"""The user's manifests, checked as an API server would: services, runtimes and Secrets."""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hooks.api import API_VERSION, llmservice, parse, runtime
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import annotations
from local import documents, secrets
from local.documents import Document
from local.errors import Usage

SERVICE = "LLMService"
RUNTIME = "InferenceRuntime"

SPECS: dict[str, type[Any]] = {
    SERVICE: llmservice.LLMServiceSpec,
    RUNTIME: runtime.InferenceRuntimeSpec,
}

# `status` is what a cluster wrote; `kubectl get -o yaml` shows it, and applying it changes nothing.
FIELDS = ["apiVersion", "kind", "metadata", "spec", "status"]

DEFAULT_NAMESPACE = "default"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifests:
    services: Sequence[Document]
    runtimes: Sequence[Document]
    secrets: Sequence[Document] = ()
    notes: Sequence[str] = ()
    """What of the files is not used, in words."""


def load(paths: Sequence[Path]) -> Manifests:
    """All objects of the files and folders. Raises Usage with a line for every mistake."""
    found, notes = [], []
    for document in documents.load(paths):
        if _is_foreign(document):
            notes.append(_skipped(document))
        else:
            found.append(document)
    problems = [problem for document in found for problem in _problems(document)]
    if problems:
        raise Usage(*problems)
    by_kind = {
        kind: [document for document in found if document.value["kind"] == kind]
        for kind in (*SPECS, secrets.KIND)
    }
    manifests = Manifests(
        services=by_kind[SERVICE],
        runtimes=by_kind[RUNTIME],
        secrets=by_kind[secrets.KIND],
        notes=notes,
    )
    problems = [*_twice(found), *_without_runtime(manifests)]
    if problems:
        raise Usage(*problems)
    if not manifests.services:
        where = ", ".join(map(str, paths))
        raise Usage(*notes, f"{where}: holds no {SERVICE}, so there is nothing to do")
    return manifests


def key(document: Document) -> str:
    """``namespace/name``; of a runtime, which belongs to no namespace, ``name``."""
    name = objects.text(document.value, "metadata", "name")
    if document.value["kind"] == RUNTIME:
        return name
    namespace = objects.text(document.value, "metadata", "namespace") or DEFAULT_NAMESPACE
    return f"{namespace}/{name}"


def placed(document: Document, sentence: str) -> str:
    """A sentence about the document, after the file and line of the field that it names."""
    annotation = _ANNOTATION.match(sentence)
    if annotation is not None:
        place = document.place(f"metadata.annotations.{annotation.group(1)}")
        return f"{place}: {sentence[annotation.end() :]}"
    named = _FIELD.search(sentence)
    if named is None:
        return f"{document.place('spec')}: {sentence}"
    place = document.place(named.group())
    rest = sentence[named.end() :]
    if named.start() == 0 and rest.startswith(": "):
        return f"{place}{rest}"
    return f"{place}: {sentence}"


# As the hooks write fields in their sentences.
_FIELD = re.compile(r"\b(spec|metadata)(\.\w+|\[\d+\])+")
_ANNOTATION = re.compile(r"annotation (\S+): ")


def _is_foreign(document: Document) -> bool:
    """Whether it is another project's, which a cluster gets from the same files.

    A kind or a group that resembles one of ours is a slip, which must not pass unseen.
    """
    obj = document.value
    if not isinstance(obj, dict):
        return False
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind is None and version is None:
        return document.file.name in _KUSTOMIZATIONS
    if not isinstance(kind, str) or not isinstance(version, str):
        return False
    return not (
        _resembles(kind, *SPECS, secrets.KIND)
        or _resembles(version.partition("/")[0], API_VERSION.partition("/")[0])
    )


def _resembles(found: str, *ours: str) -> bool:
    """Stricter than a hint is: a Service is no LLMService, nor serving.kserve.io our group."""
    folded = [known.casefold() for known in ours]
    return bool(difflib.get_close_matches(found.casefold(), folded, n=1, cutoff=0.85))


# kustomize takes them without a kind.
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")


def _skipped(document: Document) -> str:
    kind = document.value.get("kind") or "Kustomization"
    return f"{document.place()}: {kind}: not used here"


def _problems(document: Document) -> list[str]:
    obj = document.value
    if not isinstance(obj, dict):
        return [f"{document.place()}: not a Kubernetes object: expected fields like apiVersion"]
    kind = obj.get("kind")
    if not isinstance(kind, str) or kind not in (*SPECS, secrets.KIND):
        hint = parse.nearest(str(kind), [*SPECS, secrets.KIND])
        expected = f"expected {SERVICE}, {RUNTIME} or {secrets.KIND}{hint}"
        return [f"{document.place('kind')}: unknown kind {kind!r}: {expected}"]
    version = secrets.API_VERSION if kind == secrets.KIND else API_VERSION
    if obj.get("apiVersion") != version:
        found = obj.get("apiVersion")
        return [f"{document.place('apiVersion')}: found {found!r}, expected {version}"]
    if kind == secrets.KIND:
        return [*secrets.problems(document), *_metadata_problems(document)]
    unknown = [
        f"{document.place(field)}: unknown field{parse.nearest(field, FIELDS)}"
        for field in obj
        if field not in FIELDS
    ]
    return [
        *unknown,
        *_metadata_problems(document),
        *_annotation_problems(document),
        *_spec_problems(document, SPECS[kind]),
    ]


def _metadata_problems(document: Document) -> list[str]:
    metadata = document.value.get("metadata")
    name = objects.dig(metadata, "name")
    if not isinstance(name, str) or not name:
        return [f"{document.place('metadata.name')}: is required"]
    problems = []
    if document.value["kind"] == SERVICE:
        fits = re.fullmatch(llmservice.NAME_PATTERN, name) and len(name) <= llmservice.NAME_MOST
        if not fits:
            problems.append(
                f"{document.place('metadata.name')}: {name!r}: lower-case letters, digits and "
                f"dashes only, a letter first, no dash last, at most {llmservice.NAME_MOST}"
            )
    namespace = objects.dig(metadata, "namespace")
    if namespace not in (None, "") and not _is_label(namespace):
        problems.append(
            f"{document.place('metadata.namespace')}: found {namespace!r}, expected lower-case "
            "letters, digits and dashes only, no dash first or last, at most 63"
        )
    for field in ("labels", "annotations"):
        entries = objects.dig(metadata, field)
        if entries is None:
            continue
        if not isinstance(entries, dict) or not all(isinstance(v, str) for v in entries.values()):
            place = document.place(f"metadata.{field}")
            problems.append(f"{place}: expected text values only: quote numbers, true and false")
    return problems


def _annotation_problems(document: Document) -> list[str]:
    found = annotations.mistakes(document.value, document.value["kind"])
    return [f"{document.place(f'metadata.annotations.{name}')}: {why}" for name, why in found]


def _is_label(value: object) -> bool:
    """Whether it is a DNS label: what an API server takes for the name of a namespace."""
    fits = isinstance(value, str) and re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", value)
    return bool(fits) and len(str(value)) <= 63


def _spec_problems(document: Document, model: type[Any]) -> list[str]:
    try:
        parse.read(model, document.value.get("spec"), path="spec")
    except parse.Invalid as e:
        return [placed(document, sentence) for sentence in e.problems]
    return []


def _twice(found: Iterable[Document]) -> list[str]:
    first: dict[tuple[str, str], Document] = {}
    problems = []
    for document in found:
        name = (document.value["kind"], key(document))
        before = first.setdefault(name, document)
        if before is not document:
            place = document.place("metadata.name")
            problems.append(f"{place}: {' '.join(name)} stands in {before.place()} already")
    return problems


def _without_runtime(manifests: Manifests) -> list[str]:
    known = [key(document) for document in manifests.runtimes]
    problems = []
    for document in manifests.services:
        name = objects.text(document.value, "spec", "runtime", "name")
        if name and name not in known:
            place = document.place("spec.runtime.name")
            hint = parse.nearest(name, known) or "; give its file as well"
            problems.append(f"{place}: no {RUNTIME} {name!r} in the manifests{hint}")
    return problems


def stored(document: Document, *, now: str) -> Object:
    """The object as an API server would hold it once it is created."""
    obj = objects.without_nulls(document.value)
    metadata = {
        **obj["metadata"],
        "uid": f"uid-of-{document.value['kind']}-{key(document)}",
        "creationTimestamp": now,
        "generation": 1,
    }
    if document.value["kind"] == SERVICE:
        metadata["namespace"] = objects.text(obj, "metadata", "namespace") or DEFAULT_NAMESPACE
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata}
