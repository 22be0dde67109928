"""The command line, where it answers by itself."""

import pathlib
import tomllib

import pytest

from local import cli

ROOT = pathlib.Path(__file__).parents[3]


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"noctaya {version}\n"
