"""The engine's arguments: templates, and the names that an engine will answer to."""

from __future__ import annotations

import re

import pytest

from hooks.llmservice import arguments

VALUES = {".Model.Path": "org/name", ".Service.Name": "m", ".Service.Namespace": "ns"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{.Model.Path}}", "org/name"),
        ("{{ .Model.Path }}", "org/name"),
        ("--name={{ .Service.Name }}.{{.Service.Namespace}}", "--name=m.ns"),
        ('{"a":{"b":1}}', '{"a":{"b":1}}'),
        ("$(POD_IP)", "$(POD_IP)"),
        ("", ""),
    ],
)
def test_templates_are_filled_and_the_rest_stays(text: str, filled: str) -> None:
    assert arguments.fill(text, VALUES) == filled


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("{{ messages }}", "{{ messages }}"),
        ("{{.Model.Name}}", "{{.Model.Name}}"),
        ("{{ .model.path }}", "{{ .model.path }}"),
        ("{{}}", "{{}}"),
        ("--x={{.Model.Path", "{{.Model.Path"),
    ],
)
def test_other_braces_are_quoted(text: str, quoted: str) -> None:
    with pytest.raises(arguments.TemplateError, match=re.escape(quoted)):
        arguments.fill(text, VALUES)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("--model org/name", ["org/name"]),
        ("--model=org/name --port 8000", ["org/name"]),
        ("org/name --port 8000", ["org/name"]),
        ("serve org/name", ["org/name"]),
        ("vllm serve org/name --x", ["org/name"]),
        ("--model org/name --served-model-name a b --port 1", ["a", "b"]),
        ("--model org/name --served_model_name=a", ["a"]),
        ("--served-model-name a --served-model-name b c", ["b", "c"]),
        ("--model org/name --served-model-name a a", ["a"]),
        ("--port 8000", []),
        ("", []),
        ("--model org/name --enable-lora", []),
        ("--model org/name --lora-modules x=/y", []),
        ("--model org/name --config /etc/vllm.yaml", []),
        ("--model org/name --served-model-name $(NAME)", []),
        ("--model", []),
    ],
)
def test_names_are_those_of_vllm(line: str, names: list[str]) -> None:
    assert list(arguments.served_names(line.split())) == names
