"""YAML files to plain objects that still know on which line each field stands."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from local.errors import Place, Usage

SUFFIXES = (".yaml", ".yml", ".json")

# About what etcd keeps of one object.
MOST_CHARACTERS = 1_500_000

# What JSON can say, and so what an API server is sent.
TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null")
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """One object of a manifest."""

    file: Path
    value: Any
    lines: Mapping[str, int]
    """By field, written like ``spec.container.env[0].name``; the object itself is an empty one."""

    def place(self, field: str = "") -> Place:
        """The field's place; for one that is not there, the line of what it would stand in."""
        known = field
        while known not in self.lines:
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        return Place(file=self.file, line=self.lines[known], field=field)


def load(paths: Iterable[Path]) -> list[Document]:
    """All documents of the files and folders (not their subfolders), in the order given."""
    return [document for path in paths for file in _files(path) for document in _read(file)]


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
            if not files:
                deeper = any(found.is_dir() for found in path.iterdir())
                hint = "; folders in it are not looked into: give them by name" if deeper else ""
                raise Usage(f"{path}: holds no file that ends in {', '.join(SUFFIXES)}{hint}")
            return files
        if not path.exists():
            raise Usage(f"{path}: no such file or folder")
    except OSError as e:
        raise Usage(f"{path}: cannot be read: {e.strerror}") from e
    return [path]


def _read(file: Path) -> Iterator[Document]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        raise Usage(f"{file}: cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise Usage(f"{file}: not YAML: not UTF-8 text at byte {e.start}") from e
    try:
        # Parsed to the end first: a mistake in a later document counts before the first is used.
        nodes = list(yaml.compose_all(text, _Loader))
        for node in nodes:
            if _characters(node, {}) > MOST_CHARACTERS:
                raise _mistake(
                    f"more than {MOST_CHARACTERS} characters once aliases are read", node
                )
            value = _Loader("").construct_document(node)
            if value is not None:
                yield Document(file=file, value=value, lines=dict(_lines(node, "", _line(node))))
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line = mark.line + 1 if mark else 1
        raise Usage(f"{file}:{line}: not YAML: {e.problem or e.context}") from e
    except RecursionError as e:
        raise Usage(f"{file}: an anchor holds itself, or is nested too deep") from e
    except yaml.YAMLError as e:
        raise Usage(f"{file}:1: not YAML: {' '.join(str(e).split())}") from e


class _Loader(yaml.SafeLoader):
    """As kubectl reads YAML: dates stay text, and a field given twice is a mistake."""

    yaml_implicit_resolvers = {  # noqa: RUF012  The class attribute of PyYAML's own Resolver.
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag not in TAGS:
            raise _mistake(f"tag {node.tag!r} names no kind of value that JSON has", node)
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int) and value.bit_length() > 64:
                raise ValueError("no such number in Kubernetes")
        except (ValueError, LookupError, ArithmeticError) as e:
            kind = node.tag.rpartition(":")[2]
            raise _mistake(f"{_start(node.value)} cannot be read as {kind}", node) from e
        return value

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        text: str = super().construct_scalar(node)
        if "\0" in text:
            raise _mistake(f"{_start(text)} holds a NUL, which no program can be given", node)
        try:
            # JSON writes a rare character as two halves, and PyYAML leaves them so.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as e:
            raise _mistake(f"{_start(text)} holds half a character", node) from e

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        # `!!map foo` comes here as well, and is refused below.
        for key, _ in node.value if node.id == "mapping" else ():
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str" or not isinstance(key, yaml.ScalarNode):
                raise _mistake("a field's name must be text: quote it", key)
            if key.value in seen:
                raise _mistake(f"field {key.value!r} is given twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _mistake(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _start(value: object) -> str:
    found = repr(value)
    return found if len(found) <= 80 else f"{found[:80]}..."


def _characters(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Of the text with its aliases written out; what stands behind one is counted only once."""
    if node not in known:
        found = 1
        if isinstance(node, yaml.ScalarNode):
            found += len(node.value)
        elif isinstance(node, yaml.MappingNode):
            found += sum(_characters(one, known) for pair in node.value for one in pair)
        elif isinstance(node, yaml.SequenceNode):
            found += sum(_characters(one, known) for one in node.value)
        known[node] = found
    return known[node]


def _lines(node: yaml.Node, field: str, line: int) -> Iterator[tuple[str, int]]:
    yield field, line
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{field}.{key.value}" if field else str(key.value)
            yield from _lines(value, inner, _line(key))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, f"{field}[{index}]", _line(value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
