"""What is expected of an answer beside the answer: fields that are left out may be anything."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import yaml

from hooks.k8s import objects


@dataclasses.dataclass(frozen=True)
class Difference:
    """One place at which an answer is not what is expected."""

    path: str
    expected: str
    found: str


_NOTHING = "nothing"


def differences(expected: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """All differences, in the order of ``expected``.

    An object may have more fields than are expected. A list is whole: it has the expected items,
    in their order, and no other.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            inner = f"{path}.{key}" if path else str(key)
            if key in found:
                yield from differences(value, found[key], inner)
            else:
                yield Difference(inner, _shown(value), _NOTHING)
    elif isinstance(expected, list) and isinstance(found, list):
        yield from _of_lists(expected, found, path)
    elif not _same(expected, found):
        yield Difference(path, _shown(expected), _shown(found))


def _of_lists(expected: list[Any], found: list[Any], path: str) -> Iterator[Difference]:
    """By name where all items have one, so that a missing item does not shift the others."""
    wanted, seen = [_named(item) for item in expected], [_named(item) for item in found]
    if not (all(wanted) and all(seen) and _distinct(wanted) and _distinct(seen)):
        yield from _by_position(expected, found, path)
        return
    by_name = dict(zip(seen, found, strict=True))
    for name, item in zip(wanted, expected, strict=True):
        if name in by_name:
            yield from differences(item, by_name[name], f"{path}[{name}]")
        else:
            yield Difference(f"{path}[{name}]", _shown(item), _NOTHING)
    for name, item in by_name.items():
        if name not in wanted:
            yield Difference(f"{path}[{name}]", _NOTHING, _shown(item))
    common = [name for name in seen if name in wanted]
    in_order = [name for name in wanted if name in by_name]
    if common != in_order:
        yield Difference(path, f"in the order {', '.join(in_order)}", ", ".join(common))


def _by_position(expected: list[Any], found: list[Any], path: str) -> Iterator[Difference]:
    for index in range(max(len(expected), len(found))):
        inner = f"{path}[{index}]"
        if index >= len(found):
            yield Difference(inner, _shown(expected[index]), _NOTHING)
        elif index >= len(expected):
            yield Difference(inner, _NOTHING, _shown(found[index]))
        else:
            yield from differences(expected[index], found[index], inner)


def _named(item: Any) -> str:
    """What an item is called in its list; "" where nothing tells."""
    kind, name = objects.text(item, "kind"), objects.text(item, "metadata", "name")
    if kind and name:
        return f"{kind} {name}"
    return objects.text(item, "type") or objects.text(item, "name")


def _distinct(names: list[str]) -> bool:
    return len(set(names)) == len(names)


def _same(expected: Any, found: Any) -> bool:
    """Python takes True for 1; YAML tells 30 and 30.0 apart, which is one number in JSON."""
    if isinstance(expected, bool) != isinstance(found, bool):
        return False
    return bool(expected == found)


def _shown(value: Any) -> str:
    """The value on one line, or as a block where it does not fit on one."""
    if isinstance(value, str | int | float | bool) or value is None or value in ({}, []):
        return yaml.safe_dump(value, width=10**6).removesuffix("...\n").strip()
    block: str = yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=100)
    return "\n" + block.rstrip()
