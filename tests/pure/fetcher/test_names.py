import os.path

import hypothesis
import hypothesis.strategies as st
import pytest

from fetcher import errors, names

PARTS = st.sampled_from(
    ["..", ".", "", "a", "A", "é", "e\u0301", "\\", "\n", ".noctaya", "x" * 300]
)


@hypothesis.given(st.lists(PARTS | st.text(max_size=5), min_size=1, max_size=5).map("/".join))
def test_a_name_that_passes_stays_below_its_folder_and_is_printable(path: str) -> None:
    try:
        names.check(path)
    except errors.Refused as e:
        assert e.line().isascii()
        assert e.line().isprintable()
        return
    joined = os.path.normpath(os.path.join("/cache", path))
    assert joined == f"/cache/{path}"
    path.encode()


@hypothesis.given(st.lists(st.text("aAbBéÉ/\u0301", min_size=1, max_size=5), max_size=6))
def test_names_that_pass_together_are_distinct_for_every_filesystem(paths: list[str]) -> None:
    try:
        names.check_all(paths)
    except errors.Refused:
        return
    folded = [names.fold(path) for path in paths]
    assert len(set(folded)) == len(paths)
    assert not any(a != b and b.startswith(f"{a}/") for a in folded for b in folded)


def test_ordinary_names_of_models_pass() -> None:
    names.check_all(
        ["config.json", ".gitattributes", "a/b/c.safetensors", "模型.bin", "a b.txt", "1_Pooling/x"]
    )


def test_too_many_files_are_refused() -> None:
    with pytest.raises(errors.Refused, match="more than 100000 files"):
        names.check_all(f"{n}" for n in range(100_001))
