"""Which InferenceRuntime a service uses, and whether that one can be used."""

import dataclasses
import functools
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

from hooks.api import parse
from hooks.api.llmservice import RuntimeChoice
from hooks.api.runtime import InferenceRuntimeSpec
from hooks.k8s import duration, objects
from hooks.k8s.objects import Object
from hooks.llmservice import annotations, arguments, names
from hooks.llmservice.plan import Unresolved
from hooks.llmservice.reasons import Reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runtime:
    """An InferenceRuntime that can be used: its spec and what its annotations add."""

    name: str
    spec: InferenceRuntimeSpec
    has_accelerator: bool
    inference_paths: tuple[str, ...]
    first_byte_timeout: Decimal | Literal["default"]
    idle_timeout: Decimal | Literal["default"]


_LIST = "kubectl get inferenceruntimes lists what there is"


def choose(choice: RuntimeChoice, known: dict[str, Object]) -> Runtime | Unresolved:
    """The runtime that ``choice`` names or selects, among the ``known`` by name."""
    if choice.name is not None:
        return _named(choice.name, known)
    assert choice.selector is not None
    vendors = choice.selector.vendor
    for vendor in vendors:
        candidates = usable_of(vendor, known)
        if candidates:
            return _of_highest_priority(vendor, candidates)
    for _, obj in sorted(known.items()):
        found = read(obj)
        if isinstance(found, Unresolved) and objects.text(obj, "spec", "vendor") in vendors:
            return found
    return Unresolved(
        reason=Reason.RUNTIME_NOT_FOUND,
        message=f"no InferenceRuntime has vendor {' or '.join(vendors)}; {_LIST}",
    )


def usable_of(vendor: str, known: dict[str, Object]) -> list[Runtime]:
    """The vendor's runtimes that can be used."""
    of_vendor = (obj for obj in known.values() if objects.text(obj, "spec", "vendor") == vendor)
    return [found for found in map(read, of_vendor) if isinstance(found, Runtime)]


def not_lost(chosen: Runtime, used: str, known: dict[str, Object]) -> Runtime | Unresolved:
    """``chosen``, unless it would replace a runtime that was deleted or broken meanwhile.

    ``used`` is the runtime that the service's children were made with. An administrator's slip must
    not move every engine of a vendor to another image.
    """
    if used in known:
        found = read(known[used])
        if isinstance(found, Runtime):
            return chosen
        reason, problem = found.reason, found.message
    else:
        reason, problem = Reason.RUNTIME_NOT_FOUND, f"InferenceRuntime {used} is gone"
    return Unresolved(
        reason=reason,
        message=f"{problem}. The service was made with {used} and is left so; bring it back, or"
        f" edit spec.runtime to use {chosen.name}",
    )


def read(obj: Object) -> Runtime | Unresolved:
    """An InferenceRuntime as it is observed; Unresolved where a value of it cannot be used."""
    metadata = {
        "name": objects.text(obj, "metadata", "name"),
        "annotations": objects.mapping(obj, "metadata", "annotations"),
    }
    return _read(objects.spell({"metadata": metadata, "spec": objects.mapping(obj, "spec")}))


# Every service of a cluster is asked about with the same few runtimes, and validating these took
# a quarter of a sync.
@functools.lru_cache(maxsize=256)
def _read(text: bytes) -> Runtime | Unresolved:
    obj: Object = objects.parse(text)
    name = objects.text(obj, "metadata", "name")
    problems = annotations.sentences(obj, "InferenceRuntime")
    try:
        spec = parse.read(InferenceRuntimeSpec, objects.mapping(obj, "spec"), path="spec")
        if spec.accelerator.sharing.supported:
            return Unresolved(
                reason=Reason.NOT_IMPLEMENTED,
                message="not implemented in this version, so remove it:"
                f" spec.accelerator.sharing.supported of InferenceRuntime {name}",
            )
        _check_templates(spec)
        _check_ports(spec)
        found = Runtime(
            name=name,
            spec=spec,
            has_accelerator=_has_accelerator(obj),
            inference_paths=_inference_paths(obj),
            first_byte_timeout=_timeout(obj, names.FIRST_BYTE_TIMEOUT),
            idle_timeout=_timeout(obj, names.IDLE_TIMEOUT),
        )
    except ValueError as error:
        problems.append(str(error))
    except parse.Invalid as error:
        problems += error.problems
    else:
        if not problems:
            return found
    return Unresolved(
        reason=Reason.RUNTIME_INVALID, message=f"InferenceRuntime {name}: {'; '.join(problems)}"
    )


def _named(name: str, known: dict[str, Object]) -> Runtime | Unresolved:
    if name in known:
        return read(known[name])
    return Unresolved(
        reason=Reason.RUNTIME_NOT_FOUND, message=f"there is no InferenceRuntime {name}; {_LIST}"
    )


def _of_highest_priority(vendor: str, candidates: list[Runtime]) -> Runtime | Unresolved:
    highest = max(runtime.spec.priority for runtime in candidates)
    best = sorted(
        (runtime for runtime in candidates if runtime.spec.priority == highest),
        key=lambda runtime: runtime.name,
    )
    if len(best) == 1:
        return best[0]
    tied = ", ".join(runtime.name for runtime in best)
    return Unresolved(
        reason=Reason.RUNTIME_AMBIGUOUS,
        message=f"InferenceRuntimes {tied} of vendor {vendor} all have priority {highest}; give one"
        " a higher priority, or name one in spec.runtime.name",
    )


def _check_templates(spec: InferenceRuntimeSpec) -> None:
    texts = {f"args[{i}]": text for i, text in enumerate(spec.container.args)}
    texts |= {f"env[{i}].value": v.value or "" for i, v in enumerate(spec.container.env)}
    for where, text in texts.items():
        try:
            arguments.check(text)
        except arguments.TemplateError as error:
            raise ValueError(f"spec.container.{where}: {error}") from None


def _check_ports(spec: InferenceRuntimeSpec) -> None:
    """A Pod has one named port, so a name can only be that one."""
    known = spec.container.port.name
    for where, port in _ports(spec):
        if isinstance(port, str) and port != known:
            raise ValueError(
                f"{where}: {port!r} is no port of the container; expected {known!r} or a number"
            )
        if isinstance(port, int) and not 1 <= port <= 65535:
            raise ValueError(f"{where}: {port} is not between 1 and 65535")


def _ports(spec: InferenceRuntimeSpec) -> Iterator[tuple[str, int | str]]:
    if spec.metrics is not None:
        yield "spec.metrics.port", spec.metrics.port
    health = spec.health
    probes = {"readiness": health.readiness, "startup": health.startup, "liveness": health.liveness}
    for kind, probe in probes.items():
        if probe is not None and probe.http_get is not None:
            yield f"spec.health.{kind}.httpGet.port", probe.http_get.port
        if probe is not None and probe.tcp_socket is not None:
            yield f"spec.health.{kind}.tcpSocket.port", probe.tcp_socket.port


def _has_accelerator(obj: Object) -> bool:
    value = objects.annotation(obj, names.ACCELERATOR)
    if value is not None and value != "none":
        raise ValueError(
            f"annotation {names.ACCELERATOR}: found {value[:80]!r}; the only value is 'none'"
        )
    return value is None


def _inference_paths(obj: Object) -> tuple[str, ...]:
    value = objects.annotation(obj, names.INFERENCE_PATHS) or ""
    paths = tuple(path.strip() for path in value.split(",") if path.strip())
    for path in paths:
        if not path.startswith("/") or any(character.isspace() for character in path):
            raise ValueError(
                f"annotation {names.INFERENCE_PATHS}: {path[:80]!r} is no path; expected /like/this"
            )
    return paths


def _timeout(obj: Object, annotation: str) -> Decimal | Literal["default"]:
    value = objects.annotation(obj, annotation)
    if value is None:
        return "default"
    try:
        seconds = duration.parse(value)
    except duration.DurationError as error:
        raise ValueError(f"annotation {annotation}: {error}") from None
    if seconds <= 0:
        raise ValueError(f"annotation {annotation}: must be more than zero, found {value!r}")
    return seconds
