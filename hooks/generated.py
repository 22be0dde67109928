"""Files that are made from code: written, or with ``--check`` held against what stands there."""

import argparse
import difflib
import pathlib
import sys
from collections.abc import Sequence


def main(
    files: dict[str, str],
    arguments: Sequence[str] | None,
    *,
    module: str,
    directory: str,
    description: str | None,
) -> int:
    """The command line of ``module``, which makes ``files``: file name -> text.

    The exit code is 1 where ``--check`` finds a difference, which it prints.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=pathlib.Path(directory))
    parser.add_argument("--check", action="store_true", help="write nothing, show differences")
    options = parser.parse_args(arguments)
    differences = 0
    for name, text in files.items():
        path: pathlib.Path = options.directory / name
        if not options.check:
            path.write_text(text, encoding="utf-8")
            continue
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        diff = list(
            difflib.unified_diff(
                before.splitlines(keepends=True),
                text.splitlines(keepends=True),
                str(path),
                module,
            )
        )
        sys.stdout.writelines(diff)
        differences += bool(diff)
    return 1 if differences else 0
