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
