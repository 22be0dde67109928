"""Volumes that are full, read-only, somebody else's, or hold links that somebody planted."""

import collections.abc
import os
import pathlib
import shutil
import subprocess

import pytest
import urllib3

from tests.process.fetcher import localhub, models, rig

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts volumes and changes users"),
]
SNAPSHOT = f"hub/models--org--m/snapshots/{localhub.COMMIT}"
SHARD = "model-00001-of-00002.safetensors"
OTHER = 65532


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


@pytest.fixture
def small_volume(cache: pathlib.Path) -> collections.abc.Iterator[pathlib.Path]:
    """A volume of 4 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(cache)], check=True)
    try:
        yield cache
    finally:
        subprocess.run(["umount", "--lazy", str(cache)], check=True)


def let_all_in(path: pathlib.Path) -> None:
    """Tests' folders are their user's own, up to the top."""
    for folder in (path, *path.parents):
        if str(folder) != "/":
            folder.chmod(folder.stat().st_mode | 0o055)


def as_other(tmp_path: pathlib.Path, *arguments: str, environ: dict[str, str]) -> rig.Run:
    """Run as a user without a name, a home or capabilities, as the Job's container does."""
    program = tmp_path / "program"
    shutil.copytree(pathlib.Path(rig.__file__).parents[3] / "fetcher", program / "fetcher")
    shutil.copytree(pathlib.Path(urllib3.__file__).parent, program / "urllib3")
    let_all_in(tmp_path)
    return rig.run(
        *arguments,
        environ={**environ, "PYTHONPATH": str(program), "PYTHONDONTWRITEBYTECODE": "1"},
        command=("/usr/bin/python3", "-m", "fetcher"),
        user=OTHER,
        group=OTHER,
        extra_groups=[],
    )


def test_a_model_that_does_not_fit_is_refused_before_a_byte(
    hub: localhub.LocalHub, small_volume: pathlib.Path, model: localhub.Repo
) -> None:
    model.files[SHARD] = models.noise(5_000_000)
    run = rig.stage("hf://org/m", small_volume, environ=hub.environ())
    assert run.code == 14
    assert run.reason.startswith("no space: hf://org/m@main needs 5.9 MiB more, the volume has ")
    assert hub.asked("resolve") == []
    assert rig.leftovers(small_volume) == []


def test_a_volume_that_somebody_fills_meanwhile_is_reported_and_the_next_run_goes_on(
    hub: localhub.LocalHub, small_volume: pathlib.Path, model: localhub.Repo
) -> None:
    model.files[SHARD] = models.noise(2_500_000)
    filler = small_volume / "filler"

    def fill(exchange: localhub.Exchange) -> bool:
        if exchange.kind == "cdn" and exchange.path == SHARD and not filler.exists():
            filler.write_bytes(bytes(2_500_000))
        return False

    hub.fault = fill
    run = rig.stage("hf://org/m", small_volume, environ=hub.environ())
    assert run.code == 14, run.err
    assert "is full" in run.reason
    assert not (small_volume / "hub").exists()
    filler.unlink()
    hub.fault = lambda exchange: False
    run = rig.stage("hf://org/m", small_volume, environ=hub.environ())
    assert run.code == 0, run.err
    assert rig.tree(small_volume / SNAPSHOT) == model.files


def test_what_is_kept_of_an_earlier_run_does_not_count_twice(
    hub: localhub.LocalHub, small_volume: pathlib.Path, model: localhub.Repo
) -> None:
    model.files[SHARD] = models.noise(2_400_000)
    hub.fault = lambda e: (
        (e.kind == "cdn" and e.path == SHARD and e.start > 2_000_000 and e.send(404))
        or (
            e.kind == "cdn"
            and e.path == SHARD
            and e.content is not None
            and e.send_content(e.content, cut_after=2_200_000)
        )
    )
    assert rig.stage("hf://org/m", small_volume, "--tries=1", environ=hub.environ()).code == 20
    hub.fault = lambda exchange: False
    run = rig.stage("hf://org/m", small_volume, environ=hub.environ())
    assert run.code == 0, run.err


def test_a_read_only_volume_is_named(hub: localhub.LocalHub, small_volume: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
    run = rig.stage("hf://org/m", small_volume, environ=hub.environ())
    assert (run.code, "is on a read-only volume" in run.reason) == (15, True), run.err


def test_a_staged_model_on_a_read_only_volume_is_simply_there(
    hub: localhub.LocalHub, small_volume: pathlib.Path
) -> None:
    assert rig.stage("hf://org/m", small_volume, environ=hub.environ()).code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
    assert rig.stage("hf://org/m", small_volume, environ=hub.environ()).code == 0
    assert rig.run("verify", str(small_volume)).code == 0


def test_a_volume_of_another_owner_is_named_with_its_owner(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cache.chmod(0o755)
    run = as_other(tmp_path, "stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    assert run.code == 15, run.err
    assert "belongs to 0:0 with mode 0755" in run.reason
    assert f"cannot be written as {OTHER}:{OTHER}: set fsGroup" in run.reason


def test_a_volume_with_fsgroup_is_enough_for_a_user_without_a_home(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    os.chown(cache, 0, OTHER)
    cache.chmod(0o2775)
    run = as_other(tmp_path, "stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    assert run.code == 0, run.err
    for path in (cache / "hub").rglob("*"):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (OTHER, OTHER)
        assert found.st_mode & 0o7777 == (0o2755 if path.is_dir() else 0o644), path


def test_a_folder_that_is_to_be_open_takes_writes_of_any_user_and_stays_so(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    """Of a root's cache with a common umask, as on a node's own folder."""
    let_all_in(cache)
    for _ in range(2):
        run = rig.stage(
            "hf://org/m", cache, "--open-folder=vllm", environ=hub.environ(), umask=0o22
        )
        assert run.code == 0, run.err
        write = ["touch", str(cache / "vllm" / "compiled")]
        assert subprocess.run(write, user=OTHER, group=OTHER, extra_groups=[]).returncode == 0
        write = ["touch", str(cache / SNAPSHOT / "compiled")]
        assert subprocess.run(write, user=OTHER, group=OTHER, extra_groups=[]).returncode != 0


def test_a_link_in_place_of_a_folder_that_is_to_be_open_is_refused(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "elsewhere").mkdir(0o755)
    (cache / "vllm").symlink_to(tmp_path / "elsewhere")
    run = rig.stage("hf://org/m", cache, "--open-folder=vllm", environ=hub.environ())
    assert run.code == 15, run.err
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_folder_that_is_to_be_open_stands_in_the_cache(
    hub: localhub.LocalHub, cache: pathlib.Path, name: str
) -> None:
    run = rig.stage("hf://org/m", cache, f"--open-folder={name}", environ=hub.environ())
    assert run.code == 2, run.err


def test_a_cache_that_is_reached_through_a_link_is_used(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(cache)
    run = rig.stage("hf://org/m", link, environ=hub.environ())
    assert run.code == 0, run.err
    assert rig.tree(cache / SNAPSHOT) == models.small()
    assert rig.run("verify", str(link / SNAPSHOT)).code == 0


@pytest.mark.parametrize(
    "where",
    [
        "hub",
        "hub/models--org--m",
        "hub/models--org--m/snapshots",
        "hub/models--org--m/refs",
        ".noctaya",
    ],
)
def test_a_link_that_somebody_planted_in_the_cache_is_not_followed(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path, where: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (cache / where).parent.mkdir(parents=True, exist_ok=True)
    (cache / where).symlink_to(outside)
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert (run.code, "is a link or a file" in run.reason) == (15, True), run.err
    assert list(outside.rglob("*")) == []


def test_a_link_in_place_of_the_model_is_moved_aside_and_never_written_through(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (cache / SNAPSHOT).parent.mkdir(parents=True)
    (cache / SNAPSHOT).symlink_to(outside)
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert run.code == 0, run.err
    assert not (cache / SNAPSHOT).is_symlink()
    assert rig.tree(cache / SNAPSHOT) == models.small()
    assert list(outside.iterdir()) == []


def test_a_folder_without_a_marker_is_proven_before_it_is_trusted(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    for name, content in models.small().items():
        path = cache / SNAPSHOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    run = rig.stage("hf://org/m", cache, environ=hub.environ())
    assert (run.code, run.summary["fetched"]) == (0, 0), run.err
    assert hub.asked("resolve") == []


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_cache_that_is_no_folder_is_a_mistake_in_words(
    hub: localhub.LocalHub, tmp_path: pathlib.Path, kind: str
) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_bytes(b"")
    run = rig.stage("hf://org/m", path, environ=hub.environ())
    assert (run.code, "there is no such folder" in run.reason) == (2, True)


def test_plan_says_that_a_model_does_not_fit(
    hub: localhub.LocalHub, small_volume: pathlib.Path, model: localhub.Repo
) -> None:
    arguments = ("plan", "hf://org/m", f"--cache={small_volume}")
    assert "does not fit" not in rig.run(*arguments, environ=hub.environ()).out
    model.files[SHARD] = models.noise(5_000_000)
    run = rig.run(*arguments, environ=hub.environ())
    assert (run.code, "does not fit: hf://org/m@main needs " in run.out) == (0, True), run.err


def test_verify_of_something_else_says_so(cache: pathlib.Path) -> None:
    run = rig.run("verify", str(cache / "absent"))
    assert (run.code, "there is no such folder" in run.reason) == (11, True)
    assert rig.run("verify", str(cache)).code == 11
    (cache / ".noctaya").mkdir()
    (cache / ".noctaya/broken.json").write_text('{"files": [')
    assert rig.run("verify", str(cache)).code == 11
