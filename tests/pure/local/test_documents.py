"""YAML with the lines that its fields stand on."""

from pathlib import Path

import pytest

from local import documents
from local.errors import Usage

TEXT = """\
# A comment.
kind: First
spec:
  env:
    - name: A
      value: 2026-11-30
    - {name: B}
---
---
kind: Second
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "a.yaml"
    found.write_text(TEXT)
    return found


def test_documents_are_read_in_order_and_empty_ones_left_out(file: Path) -> None:
    first, second = documents.load([file])
    assert first.value["kind"] == "First"
    assert second.value == {"kind": "Second"}


def test_a_date_is_text_as_it_is_for_kubectl(file: Path) -> None:
    assert documents.load([file])[0].value["spec"]["env"][0]["value"] == "2026-11-30"


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 2),
        ("kind", 2),
        ("spec.env[0].value", 6),
        ("spec.env[1].name", 7),
        ("spec.env[1].value", 7),
        ("spec.container.port", 3),
        ("metadata.name", 2),
    ],
)
def test_a_field_is_found_or_what_it_would_stand_in(file: Path, field: str, line: int) -> None:
    place = documents.load([file])[0].place(field)
    assert str(place) == f"{file}:{line}" + (f": {field}" if field else "")


def test_lines_count_from_the_start_of_the_file(file: Path) -> None:
    assert documents.load([file])[1].place("kind").line == 10


def test_a_folder_is_its_yaml_files_by_name_without_its_folders(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", "notes.txt"):
        (tmp_path / name).write_text(f'{{"kind": "{name}"}}')
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "d.yaml").write_text("kind: d")
    kinds = [document.value["kind"] for document in documents.load([tmp_path])]
    assert kinds == ["a.yaml", "b.yml", "c.json"]


def test_an_alias_of_itself_is_a_mistake_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: &a [*a]")
    with pytest.raises(Usage, match="holds itself"):
        documents.load([file])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("!!map foo", "expected a mapping"),
        ("!!seq foo", "expected a sequence"),
        ("{? !!str [a] : 1}", "a field's name must be text"),
        ("!!int abc", "'abc' cannot be read as int"),
        ('!!int ""', "'' cannot be read as int"),
        ("!!float x", "'x' cannot be read as float"),
        (":".join(["1"] * 300) + ".5", "cannot be read as float"),
        ("!!bool foo", "'foo' cannot be read as bool"),
        ("!!timestamp foo", "names no kind of value that JSON has"),
        ("!!timestamp 2026-11-30", "names no kind of value that JSON has"),
        ("!!set {a}", "names no kind of value that JSON has"),
        ("!!omap [a: 1]", "names no kind of value that JSON has"),
        ("!!binary AAAA", "names no kind of value that JSON has"),
        ("1" * 5000, "cannot be read as int"),
        ("0x" + "1" * 5000, "cannot be read as int"),
        (r'"a\0b"', "holds a NUL"),
        (r'"\ud800"', "holds half a character"),
        (r'{"a\0b": 1}', "holds a NUL"),
    ],
)
def test_a_value_that_an_api_server_could_not_be_sent_is_a_mistake(
    tmp_path: Path, value: str, said: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"a:\n  b: {value}\n")
    with pytest.raises(Usage, match=f"^{file}:2: .*{said}") as raised:
        documents.load([file])
    assert len(str(raised.value)) < len(str(file)) + 200


def test_a_character_that_json_writes_as_two_halves_is_one(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(r'{"kind": "\ud83d\ude00"}')
    assert documents.load([file])[0].value == {"kind": "\N{GRINNING FACE}"}


@pytest.mark.parametrize("inner", ["[{}]", "{{{}}}"])
def test_aliases_that_multiply_are_refused_before_they_are_followed(
    tmp_path: Path, inner: str
) -> None:
    aliases = ", ".join(f"k{at}: *{{0}}" if "{{" in inner else "*{0}" for at in range(9))
    lines = ["a0: &a0 x"]
    lines += [
        f"a{level}: &a{level} " + inner.format(aliases.format(f"a{level - 1}"))
        for level in range(1, 10)
    ]
    file = tmp_path / "a.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(Usage, match="characters once aliases are read"):
        documents.load([file])


def test_aliases_within_reason_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: &a {x: 1}\nb: [*a, *a]\n")
    assert documents.load([file])[0].value["b"] == [{"x": 1}, {"x": 1}]


def test_a_path_that_is_too_long_is_a_mistake_of_the_call() -> None:
    with pytest.raises(Usage, match="cannot be read: File name too long"):
        documents.load([Path("a" * 5000)])
