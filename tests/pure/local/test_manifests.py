"""What an API server would refuse of the manifests."""

from pathlib import Path

import pytest

from local import manifests
from local.errors import Usage

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "echo"


def load(folder: Path, old: str, new: str) -> manifests.Manifests:
    for name in ("llmservice.yaml", "runtime.yaml"):
        (folder / name).write_text((EXAMPLE / name).read_text().replace(old, new))
    return manifests.load([folder])


@pytest.mark.parametrize(
    "namespace",
    ["a" * 64, "a b", "A", "-a", "a-", "../x", "[a]", "{a: b}", "1", "true", r'"a\n"', "a.b", "é"],
)
def test_a_namespace_that_is_no_label_is_a_mistake(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(Usage, match=r"yaml:\d+: metadata.namespace: found .*, expected lower-case"):
        load(tmp_path, "namespace: default", f"namespace: {namespace}")


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        ("a" * 63, "a" * 63 + "/echo"),
        ('"1"', "1/echo"),
        ("a--1", "a--1/echo"),
        ('""', "default/echo"),
        ("null", "default/echo"),
    ],
)
def test_a_namespace_is_a_label_or_left_out(tmp_path: Path, namespace: str, key: str) -> None:
    known = load(tmp_path, "namespace: default", f"namespace: {namespace}")
    assert manifests.key(known.services[0]) == key


def test_an_unknown_annotation_is_named_where_it_stands(tmp_path: Path) -> None:
    place = r"runtime\.yaml:11: metadata\.annotations\.serving\.noctaya\.io/accelerators: "
    with pytest.raises(Usage, match=place + "unknown annotation; did you mean accelerator"):
        load(tmp_path, "noctaya.io/accelerator", "noctaya.io/accelerators")


def test_a_sentence_about_an_annotation_is_placed_where_it_stands(tmp_path: Path) -> None:
    (runtime,) = load(tmp_path, "", "").runtimes
    placed = manifests.placed(runtime, "annotation serving.noctaya.io/accelerator: found 'some'")
    assert placed == (
        f"{tmp_path / 'runtime.yaml'}:11: metadata.annotations.serving.noctaya.io/accelerator:"
        " found 'some'"
    )


def test_a_kind_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="unknown kind"):
        load(tmp_path, "kind: LLMService", "kind: [LLMService]")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("keda.yaml", "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\n", "Trigger"),
        ("service.yaml", "apiVersion: v1\nkind: Service\n", "Service"),
        ("kserve.yaml", "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n", "Inf"),
        ("kustomization.yaml", "resources: [llmservice.yaml]\n", "Kustomization"),
    ],
)
def test_what_other_projects_get_of_the_same_folder_is_left_out_with_a_note(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    (tmp_path / name).write_text(text)
    known = load(tmp_path, "", "")
    assert len(known.services) == 1
    (note,) = known.notes
    assert note.startswith(f"{tmp_path / name}:1: {kind}")
    assert note.endswith(": not used here")


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: serving.noctaya.io/v1alpha1\nkind: LLMServise\n",
        "apiVersion: serving.noctaya.io/v1alpha1\nkind: Gadget\n",
        "apiVersion: serving.noctya.io/v1alpha1\nkind: Gadget\n",
        "apiVersion: v1\nkind: LLMServise\n",
        "apiVersion: v2\nkind: LLMService\n",
        "kind: Service\n",
        "resources: [llmservice.yaml]\n",
    ],
)
def test_what_resembles_ours_is_a_mistake_and_not_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(Usage, match=r"x\.yaml:\d: (kind|apiVersion): "):
        load(tmp_path, "", "")


def test_a_folder_of_other_projects_alone_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    with pytest.raises(Usage, match=r"(?s)Pod: not used here.*holds no LLMService"):
        manifests.load([tmp_path])
