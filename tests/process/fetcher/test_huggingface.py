"""Staging from the (fake) Hugging Face Hub."""

import json
import os
import pathlib

import pytest

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
SNAPSHOT = f"hub/models--org--m/snapshots/{localhub.COMMIT}"


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


def staged(cache: pathlib.Path) -> dict[str, bytes]:
    return {
        name.removeprefix(f"{SNAPSHOT}/"): content
        for name, content in rig.tree(cache).items()
        if name.startswith(SNAPSHOT)
    }


def test_a_model_is_staged_whole_where_offline_readers_look(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert staged(cache) == models.small()
    assert (cache / "hub/models--org--m/refs/main").read_bytes() == localhub.COMMIT.encode()
    assert rig.leftovers(cache) == []
    assert run.summary["bytes"] == sum(map(len, models.small().values()))
    assert run.summary["resolved"] == localhub.COMMIT
    assert run.summary["path"] == str(cache / SNAPSHOT)


def test_huggingface_is_the_same_scheme_as_hf(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    assert rig.stage("huggingface://org/m", cache, environ=hub.environ()).code == 0
    before = len(hub.seen)
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert len(hub.seen) == before


def test_a_second_run_asks_nobody_and_writes_nothing(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    before = len(hub.seen)
    times = {path: path.lstat().st_mtime_ns for path in (cache, *cache.rglob("*"))}
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0
    assert run.summary["fetched"] == 0
    assert len(hub.seen) == before
    assert {path: path.lstat().st_mtime_ns for path in (cache, *cache.rglob("*"))} == times


def test_a_tag_gets_its_own_ref_and_main_points_at_what_is_staged(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.branches = ("main", "refs/pr/1")
    run = rig.stage("hf://org/m@refs/pr/1", cache, environ=hub.environ())
    assert run.code == 0, run.err
    refs = rig.tree(cache / "hub/models--org--m/refs")
    assert refs == {"main": localhub.COMMIT.encode(), "refs/pr/1": localhub.COMMIT.encode()}


def test_a_commit_is_not_resolved_again(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    assert rig.stage(f"hf://org/m@{localhub.COMMIT}", cache, environ=hub.environ()).code == 0
    assert hub.asked("revision") == []


def test_a_listing_of_many_pages_is_read_to_its_end(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    hub.page_size = 2
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert staged(cache) == models.small()


def test_only_wanted_files_come_and_a_wider_wish_keeps_the_earlier_ones(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    run = rig.stage("hf://org/m", cache, "--include=*.json", environ=hub.environ())
    assert run.code == 0, run.err
    assert set(staged(cache)) == {"config.json"}
    run = rig.stage("hf://org/m", cache, "--include=tokenizer/", environ=hub.environ())
    assert run.code == 0, run.err
    assert set(staged(cache)) == {"config.json", "tokenizer/vocab.txt"}


def test_patterns_that_match_nothing_are_an_error(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    run = rig.stage("hf://org/m", cache, "--include=*.gguf", environ=hub.environ())
    assert (run.code, run.reason.split(":")[0]) == (11, "not found")
    assert rig.tree(cache) == {}


def test_patterns_that_match_nothing_are_an_error_where_another_selection_is_staged(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, "--include=*.json", environ=hub.environ()).code == 0
    run = rig.stage("hf://org/m", cache, "--include=*.gguf", environ=hub.environ())
    assert (run.code, run.reason.split(":")[0]) == (11, "not found")
    assert len(list((cache / ".noctaya").glob("*.json"))) == 1


def test_another_selection_is_not_called_damaged(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, "--include=*.json", environ=hub.environ()).code == 0
    run = rig.stage("hf://org/m", cache, "--include=tokenizer/", environ=hub.environ())
    assert run.code == 0, run.err
    assert "holds another selection of its files: staging a copy with both" in run.err
    assert "held another selection: it lies now in " in run.err
    assert "not whole" not in run.err
    assert "without a valid marker" not in run.err


def test_the_same_weights_in_other_formats_stay_at_the_hub(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.files = {"model.safetensors": b"s", "pytorch_model.bin": b"p", "original/c.pth": b"o"}
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert set(staged(cache)) == {"model.safetensors"}


def test_plan_says_what_would_come_and_fetches_nothing(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    run = rig.run("plan", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    assert run.code == 0, run.err
    total = sum(map(len, models.small().values()))
    assert f"total: 5 files, {total} bytes" in run.out
    assert f"goes to: {SNAPSHOT} (not staged)" in run.out
    assert hub.asked("resolve") == []
    assert rig.tree(cache) == {}


def test_files_are_readable_by_anyone_whatever_the_umask(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, environ=hub.environ(), umask=0o077).code == 0
    for path in (cache / "hub").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_a_gated_model_says_to_accept_the_licence(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    model.gated, model.token = True, "hf_right"
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 10
    assert run.reason.startswith("unauthorized: ")
    assert "accept the licence" in run.reason
    assert "HF_TOKEN is not set" in run.reason
    run = rig.stage("hf://org/m", cache, environ=hub.environ(HF_TOKEN="hf_wrong"))
    assert run.code == 10
    assert "hf_wrong" not in run.err + run.out


def test_the_token_opens_the_hub_and_never_reaches_the_cdn_the_log_or_the_marker(
    hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo, tmp_path: pathlib.Path
) -> None:
    model.gated, model.token = True, "hf_right"
    file = tmp_path / "token"
    file.write_text("hf_right\n")
    for name, environ in {
        "variable": {"HF_TOKEN": "hf_right\n"},
        "old variable": {"HUGGING_FACE_HUB_TOKEN": "hf_right"},
        "file": {"HF_TOKEN_PATH": str(file)},
    }.items():
        target = tmp_path / name
        target.mkdir()
        run = rig.stage("hf://org/m", target, environ=hub.environ(**environ))
        assert run.code == 0, run.err
        assert "hf_right" not in run.out + run.err
        assert all(b"hf_right" not in path.read_bytes() for path in target.rglob("*.json"))
    assert hub.asked("cdn")
    assert all("authorization" not in seen.headers for seen in hub.asked("cdn"))


def test_a_token_with_a_line_break_inside_is_refused_unshown(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    run = rig.stage("hf://org/m", cache, environ=hub.environ(HF_TOKEN="hf_a\nX-Evil: 1"))
    assert run.code == 2
    assert "X-Evil" not in run.err


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("hf://org/absent", 11, "does not exist, or is private"),
        ("hf://org/m@v9", 11, "has no revision 'v9'"),
        ("hf://org", 2, "does not name a model"),
        ("hf://org/m@", 2, "ends in '@'"),
        ("hf://org/../m", 2, "does not name a model"),
        ("hf://org/m@../x", 2, "is not a revision"),
        ("hf://org/m@main\n", 2, "is not a revision"),
        ("s3://bucket/m", 2, "has no known scheme"),
        ("pvc://claim/m", 2, "nothing to stage"),
    ],
)
def test_a_typo_fails_at_once_with_its_own_code(
    hub: localhub.LocalHub, cache: pathlib.Path, uri: str, code: int, words: str
) -> None:
    run = rig.stage(uri, cache, environ=hub.environ())
    assert run.code == code
    assert words in run.reason
    assert len(hub.seen) <= 1


def test_the_error_line_alone_goes_to_the_termination_log(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "termination-log"
    run = rig.stage("hf://org/absent", cache, f"--termination-log={log}", environ=hub.environ())
    assert log.read_text() == run.reason
    assert "\n" not in log.read_text()


def test_verify_reads_every_byte_and_a_flipped_one_is_restaged_beside(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    assert rig.run("verify", str(cache / SNAPSHOT)).code == 0
    shard = cache / SNAPSHOT / "model-00001-of-00002.safetensors"
    good = shard.read_bytes()
    in_use = os.open(shard, os.O_RDWR)
    os.pwrite(in_use, bytes([good[1000] ^ 1]), 1000)
    run = rig.run("verify", str(cache / SNAPSHOT))
    assert run.code == 12
    assert "'model-00001-of-00002.safetensors' has sha256" in run.out
    for marker in (cache / ".noctaya").glob("*.json"):
        marker.unlink()
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert staged(cache) == models.small()
    assert os.pread(in_use, 1, 1000) == bytes([good[1000] ^ 1])
    assert os.fstat(in_use).st_nlink == 1, "the file in use was moved aside, not removed"
    os.close(in_use)


@pytest.mark.parametrize("damage", ["missing", "short", "link"])
def test_a_marker_that_no_longer_fits_leads_to_a_new_copy(
    hub: localhub.LocalHub, cache: pathlib.Path, damage: str
) -> None:
    assert rig.stage("hf://org/m", cache, environ=hub.environ()).code == 0
    shard = cache / SNAPSHOT / "model-00001-of-00002.safetensors"
    content = shard.read_bytes()
    shard.unlink()
    if damage == "short":
        shard.write_bytes(content[:-1])
    elif damage == "link":
        shard.symlink_to("/etc/passwd")
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert "is not what it should be" in run.err
    assert staged(cache) == models.small()
    assert not shard.is_symlink()


def test_a_marker_names_source_commit_files_sizes_and_hashes(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", cache, "--include=*.json", environ=hub.environ()).code == 0
    (path,) = (cache / ".noctaya").glob("*.json")
    content = models.small()["config.json"]
    assert json.loads(path.read_text()) == {
        "source": "hf://org/m@main",
        "resolved": localhub.COMMIT,
        "folder": SNAPSHOT,
        "include": ["*.json"],
        "exclude": [],
        "files": [
            {
                "path": "config.json",
                "size": len(content),
                "hash": f"git-sha1:{localhub.git_sha1(content)}",
            }
        ],
        "tool": "noctaya-fetch 0.1.0",
    }
