import pytest

from fetcher import errors, plans


def plan(*paths: str) -> plans.Plan:
    proof = plans.Proof(algorithm="sha256", hex="0" * 64)
    files = (plans.RemoteFile(path=p, size=1, proof=proof, locator=p) for p in paths)
    return plans.Plan(resolved="c", files=tuple(files))


def kept(found: plans.Plan) -> list[str]:
    return [file.path for file in found.files]


@pytest.mark.parametrize(
    ("include", "exclude", "wanted"),
    [
        ([], [], ["a.json", "b/c.json", "w.bin"]),
        (["*.json"], [], ["a.json", "b/c.json"]),
        (["b/"], [], ["b/c.json"]),
        ([], ["*.json"], ["w.bin"]),
        (["*.json"], ["b/*"], ["a.json"]),
        (["A.JSON", "w.*"], [], ["w.bin"]),
    ],
)
def test_patterns_are_the_hubs_own(
    include: list[str], exclude: list[str], wanted: list[str]
) -> None:
    patterns = plans.Patterns(include=tuple(include), exclude=tuple(exclude))
    assert kept(plans.select(plan("a.json", "b/c.json", "w.bin"), patterns)) == wanted


def test_duplicates_of_safetensors_are_left_out_unless_patterns_are_given() -> None:
    files = plan("model.safetensors", "pytorch_model.bin", "x.gguf", "onnx/m", "training_args.bin")
    assert kept(plans.select(files, plans.Patterns())) == ["model.safetensors", "training_args.bin"]
    everything = plans.Patterns(include=("*",))
    assert len(plans.select(files, everything).files) == 5


def test_a_model_that_has_only_another_format_is_kept() -> None:
    assert kept(plans.select(plan("pytorch_model.bin"), plans.Patterns())) == ["pytorch_model.bin"]


def test_files_that_were_promised_before_are_kept_too() -> None:
    patterns = plans.Patterns(include=("a.json",))
    found = plans.select(plan("a.json", "w.bin"), patterns, also={"w.bin"})
    assert kept(found) == ["a.json", "w.bin"]


def test_nothing_that_matches_is_an_error() -> None:
    with pytest.raises(errors.NotFound):
        plans.select(plan("a.json"), plans.Patterns(include=("*.bin",)))
