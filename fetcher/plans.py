"""What a source promises: the files of a model, each with its size and what proves it. Pure."""

import collections.abc
import dataclasses
import fnmatch

from fetcher import errors

# What a hub repository carries next to its safetensors for other programs: the same weights
# again, which vLLM would not load. The rule yields to any --include or --exclude.
_OTHER_FORMATS = (
    "*.msgpack", "*.h5", "*.ot", "*.onnx", "*.onnx_data", "*.tflite", "*.gguf", "*.pth",
    "original/*", "onnx/*", "openvino/*", "coreml/*", "*.mlmodel",
    "pytorch_model*.bin", "pytorch_model.bin.index.json",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proof:
    """A hash that bytes must have: `algorithm` is "sha256" or "git-sha1"."""

    algorithm: str
    hex: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hex}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packing:
    """A tar stream that is unpacked as it arrives. `content` proves the tar after gunzip."""

    gzipped: bool
    content: Proof | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """One thing to fetch. `path` is relative and checked by `names`; `locator` is the source's.

    `warning` says in words what may not be as its owner meant it.
    """

    path: str
    size: int
    proof: Proof
    locator: str
    packing: Packing | None = None
    warning: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be staged. `resolved` is the commit or digest that the files belong to."""

    resolved: str
    files: tuple[RemoteFile, ...]
    left_out: tuple[RemoteFile, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """What may not be as the files' owner meant it."""
        return [file.warning for file in self.files if file.warning]

    @property
    def total(self) -> int:
        """Bytes to transfer when nothing is there yet."""
        return sum(file.size for file in self.files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patterns:
    """Which files are wanted, in the hub's own pattern language: `*` also crosses slashes."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        return bool(self.include or self.exclude)


def select(plan: Plan, patterns: Patterns, *, also: collections.abc.Set[str] = frozenset()) -> Plan:
    """Keep the wanted files and those named in `also`; patterns that match none are an error."""
    exclude = patterns.exclude if patterns.given else _duplicates(plan)
    include = patterns.include or ("*",)

    def wanted(file: RemoteFile) -> bool:
        return _matches(file.path, include) and not _matches(file.path, exclude)

    if not any(wanted(file) for file in plan.files):
        raise errors.NotFound(
            f"none of {len(plan.files)} files match --include {list(patterns.include)} "
            f"--exclude {list(patterns.exclude)}: see `noctaya-fetch plan` for the names"
        )
    chosen = {file.path for file in plan.files if wanted(file)} | also
    kept = tuple(file for file in plan.files if file.path in chosen)
    left_out = tuple(file for file in plan.files if file.path not in chosen)
    return dataclasses.replace(plan, files=kept, left_out=left_out)


def _duplicates(plan: Plan) -> tuple[str, ...]:
    has_safetensors = any(
        file.path.endswith(".safetensors") and "/" not in file.path for file in plan.files
    )
    return _OTHER_FORMATS if has_safetensors else ()


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)
        for pattern in patterns
    )
