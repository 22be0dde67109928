"""Every example that ships renders, and says so without a warning."""

import pathlib
import re
import tomllib

import pytest
import yaml

from local import cli

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "manifests" / "examples").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_renders(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["render", str(folder)])  # Ends the program where something is wrong.
    printed = capsys.readouterr()
    assert "kind: ScaledObject" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_examples_files_can_be_piped_together(folder: pathlib.Path) -> None:
    texts = [path.read_text() for path in sorted(folder.glob("*.yaml"))]
    alone = [obj for text in texts for obj in yaml.safe_load_all(text)]
    assert list(yaml.safe_load_all("".join(texts))) == alone
    assert len(alone) == len(texts)


def test_the_smallest_service_and_runtime_of_the_page_render(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "services.md").read_text()
    shown = re.findall(r"```yaml\n(apiVersion: serving.*?)```", page, re.DOTALL)
    assert [yaml.safe_load(text)["kind"] for text in shown] == ["LLMService", "InferenceRuntime"]
    (tmp_path / "shown.yaml").write_text("---\n".join(shown))
    cli.main(["render", str(tmp_path)])
    printed = capsys.readouterr()
    assert "--served-model-name=qwen" in printed.out
    assert printed.err == ""


def test_manifests_name_the_images_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = [
        line.strip()
        for path in (ROOT / "manifests").rglob("*.yaml")
        for line in path.read_text().splitlines()
        if "noctaya/" in line and ":0" in line
    ]
    assert named
    assert all(line.endswith(f":{version}") for line in named)
