"""Mistakes of a user: one line with file and field, an exit code, and nothing started."""

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.local.conftest import COMMAND, EXAMPLE, Manifests, free_port

COMMAND_FIELD = "metadata.annotations.serving.noctaya.io/local-command"


def up(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(COMMAND), "up", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def refused(code: int, *arguments: object) -> str:
    """The only line that is printed."""
    done = up("--port", free_port(), *arguments)
    assert done.stdout == ""
    assert done.returncode == code, done.stderr
    line, newline, rest = done.stderr.partition("\n")
    assert (newline, rest) == ("\n", "")
    return line.removeprefix("noctaya: ")


@pytest.fixture
def service() -> str:
    return (EXAMPLE / "llmservice.yaml").read_text()


@pytest.fixture
def runtime() -> str:
    return (EXAMPLE / "runtime.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: [1\nb: 2", "2: not YAML: expected ',' or ']', but got ':'", id="no YAML"),
        pytest.param("hello", "1: not a Kubernetes object", id="a word"),
        pytest.param("a: 1\na: 2", "2: not YAML: field 'a' is given twice", id="twice"),
        pytest.param("on: 1", "1: not YAML: a field's name must be text", id="a field named on"),
        pytest.param("kind: Pod\n", "1: kind: unknown kind 'Pod': expected LLMService", id="kind"),
        pytest.param(
            "---\n---\nkind: LLMServce\n",
            "3: kind: unknown kind 'LLMServce': expected LLMService, InferenceRuntime or Secret;"
            " did you mean LLMService?",
            id="kind, misspelt, in a later document",
        ),
        pytest.param(
            "kind: LLMService\napiVersion: v1\n",
            "2: apiVersion: found 'v1', expected serving.noctaya.io/v1alpha1",
            id="version",
        ),
    ],
)
def test_a_file_that_holds_no_object_of_ours(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert refused(2, file).startswith(f"{file}:{line}")


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        pytest.param(
            "drainTimeout",
            "drainTimout",
            "spec.scaling.drainTimout: unknown field; did you mean drainTimeout?",
            id="field",
        ),
        pytest.param("spec:", "spce:", "spce: unknown field; did you mean spec?", id="top field"),
        pytest.param(
            "scaleDownStabilization: 30s",
            "min: x",
            'spec.scaling.min: must be a whole number, found "x"',
            id="type",
        ),
        pytest.param("name: echo\n  n", "name: Echo\n  n", "metadata.name: 'Echo': ", id="name"),
        pytest.param(
            "hf://noctaya/echo", "s3://a/b", "spec.model.source.uri: 's3://a/b' is", id="source"
        ),
        pytest.param(
            "    name: echo\n  scaling",
            "    name: ecco\n  scaling",
            "spec.runtime.name: no InferenceRuntime 'ecco' in the manifests; did you mean echo?",
            id="missing runtime",
        ),
    ],
)
def test_a_service_with_a_mistake(
    tmp_path: Path, service: str, runtime: str, before: str, after: str, where: str
) -> None:
    at = service.index(before)
    file = tmp_path / "llmservice.yaml"
    file.write_text(service.replace(before, after, 1))
    (tmp_path / "runtime.yaml").write_text(runtime)
    number = 1 + service.count("\n", 0, at)
    assert f"noctaya: {file}:{number}: {where}" in up(tmp_path).stderr


def test_a_runtime_with_a_mistake_is_named_itself(manifests: Manifests) -> None:
    manifests.runtime["spec"]["container"]["args"] = ["{{.Model.Pth}}"]
    folder = manifests.write()
    assert refused(2, folder).startswith(f"{folder}/runtime.yaml:")


@pytest.mark.parametrize(
    ("annotation", "code", "said"),
    [
        pytest.param("noctaya-echo", 2, "not JSON", id="not JSON"),
        pytest.param('"noctaya-echo"', 2, "expected a JSON array of strings", id="no array"),
        pytest.param("[]", 2, "names no program", id="empty"),
        pytest.param('["no-such-program"]', 1, "no program 'no-such-program'", id="not here"),
    ],
)
def test_a_local_command_that_cannot_be_run(
    manifests: Manifests, annotation: str, code: int, said: str
) -> None:
    manifests.runtime["metadata"]["annotations"]["serving.noctaya.io/local-command"] = annotation
    folder = manifests.write()
    line = refused(code, folder)
    assert line.startswith(f"{folder}/runtime.yaml:")
    assert COMMAND_FIELD in line
    assert said in line


def test_a_runtime_without_a_local_command(manifests: Manifests) -> None:
    del manifests.runtime["metadata"]["annotations"]["serving.noctaya.io/local-command"]
    folder = manifests.write()
    line = refused(2, folder)
    assert line.startswith(f"{folder}/runtime.yaml:")
    assert "nothing says how to start this engine" in line


@pytest.mark.parametrize(
    ("uri", "field", "advice"),
    [
        (
            "hf://noctaya/echo",
            "spec.cache.prewarm",
            "run `noctaya-fetch stage hf://noctaya/echo --cache {cache}/huggingface` yourself, and "
            "take spec.cache.prewarm away for this machine",
        ),
        ("hf://noctaya/echo@main", "spec.cache.prewarm", "take spec.cache.prewarm and any @REV"),
        ("modelscope://noctaya/echo", "spec.cache.prewarm", "take spec.cache.prewarm and any @"),
        (
            f"oci://registry.test/echo@sha256:{'0' * 64}",
            "spec.model.source.uri",
            f"run `noctaya-fetch stage oci://registry.test/echo@sha256:{'0' * 64} "
            "--cache {cache}` yourself, name the folder",
        ),
    ],
)
@pytest.mark.parametrize("strategy", ["NodeLocalPVC", "HostPath"])
def test_weights_to_be_staged_are_refused_with_a_way_round(
    manifests: Manifests,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    uri: str,
    field: str,
    advice: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    manifests.service["spec"]["model"]["source"]["uri"] = uri
    manifests.service["spec"]["cache"] = {"strategy": strategy}
    if not uri.startswith("oci:"):
        manifests.service["spec"]["cache"]["prewarm"] = True
    folder = manifests.write()
    line = refused(2, folder)
    assert line.startswith(f"{folder}/llmservice.yaml:")
    assert f": {field}: `noctaya up` stages no weights: " in line
    assert advice.format(cache=tmp_path / "noctaya") in line


def test_all_mistakes_of_a_file_are_told(manifests: Manifests) -> None:
    manifests.scaling.update(mn=1, mx=2)
    done = up(manifests.write())
    assert done.returncode == 2
    assert [line.rpartition("scaling.")[2] for line in done.stderr.splitlines()] == [
        "mn: unknown field; did you mean min?",
        "mx: unknown field; did you mean max?",
    ]


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    assert refused(2, tmp_path / "nothing").endswith("nothing: no such file or folder")
    assert refused(2, tmp_path).endswith("holds no file that ends in .yaml, .yml, .json")
    (tmp_path / "deeper").mkdir()
    assert "folders in it are not looked into" in refused(2, tmp_path)
    assert "holds no LLMService" in refused(2, EXAMPLE / "runtime.yaml")


def test_one_service_twice() -> None:
    file = EXAMPLE / "llmservice.yaml"
    line = refused(2, file, file, EXAMPLE / "runtime.yaml")
    assert "LLMService default/echo" in line


def test_a_port_in_use() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        done = up(EXAMPLE, "--port", port)
    assert done.returncode == 1
    assert done.stderr == (
        f"noctaya: --port: cannot listen on 127.0.0.1:{port}: Address already in use; choose "
        "another with --port\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="no path"),
        pytest.param((EXAMPLE, "-o", "yaml"), id="output"),
        pytest.param((EXAMPLE, "--port", "0"), id="port"),
    ],
)
def test_a_wrong_call(arguments: tuple[Any, ...]) -> None:
    done = up(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
