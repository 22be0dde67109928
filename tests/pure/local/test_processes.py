"""What is shown of a program's log."""

from pathlib import Path

import pytest

from local import processes


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", ""),
        (b"first\nlast\n\n", "last"),
        (b" 10%\r 20%\r", "20%"),
        (b"\x1b[31mred\x1b[0m\x07", r"\x1b[31mred\x1b[0m\x07"),
        ("\u202eright to left, caf\u00e9".encode(), r"\u202eright to left, " + "caf\u00e9"),
        (b"\xff\n", "\ufffd"),
        (b"x" * 401, "x" * 400 + "..."),
        (b"x" * 100_000, "x" * 400 + "..."),
    ],
)
def test_the_last_line_is_shown_short_and_without_control_characters(
    tmp_path: Path, written: bytes, shown: str
) -> None:
    log = tmp_path / "log"
    log.write_bytes(written)
    assert processes.last_words(log) == shown


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert processes.last_words(tmp_path / "log") == ""
