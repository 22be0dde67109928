"""Kills and full disks at every step: nothing half is ever visible, and the next run finishes."""

import collections.abc
import pathlib
import shutil
import signal
import time

import pytest

from tests.process.fetcher import faulty, localhub, models, registries, rig, tars

pytestmark = pytest.mark.process
SNAPSHOT = f"hub/models--org--m/snapshots/{localhub.COMMIT}"


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    files = {"config.json": b"{}", "a/w.safetensors": models.noise(3_000_000), "empty": b""}
    hub.repos["org/m"] = localhub.Repo(files=files)
    return hub.repos["org/m"]


@pytest.fixture(scope="module")
def forked(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[faulty.Faulty]:
    with faulty.forking(tmp_path_factory.mktemp("faulty") / "said") as running:
        yield running


def stage(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, fault: str, step: int
) -> rig.Run:
    """Run with a fault at a step."""
    arguments = ("stage", "hf://org/m", f"--cache={cache}", "--connections=2")
    return forked.run(fault, step, *arguments, environ=hub.environ())


def check_visible(cache: pathlib.Path, model: localhub.Repo) -> None:
    """What readers can see is the whole model or nothing, and a marker only with the whole."""
    if (cache / SNAPSHOT).exists():
        assert rig.tree(cache / SNAPSHOT) == model.files
    if list((cache / ".noctaya").glob("*.json")):
        assert rig.tree(cache / SNAPSHOT) == model.files
        assert (cache / "hub/models--org--m/refs/main").read_bytes() == localhub.COMMIT.encode()


def check_next_run(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    run = stage(forked, hub, cache, "none", 0)
    assert run.code == 0, run.err
    assert rig.tree(cache / SNAPSHOT) == model.files
    assert forked.plain("verify", str(cache)).code == 0


def test_a_kill_at_any_step_leaves_the_whole_or_nothing(
    forked: faulty.Faulty, hub: localhub.LocalHub, tmp_path: pathlib.Path, model: localhub.Repo
) -> None:
    step, killed = 1, True
    while killed:
        cache = tmp_path / f"cache-{step}"
        cache.mkdir()
        run = stage(forked, hub, cache, "kill", step)
        killed = run.code == -signal.SIGKILL
        check_visible(cache, model)
        check_next_run(forked, hub, cache, model)
        # Killed between the marker and the removal of its own folder, it leaves that empty folder.
        assert len(rig.leftovers(cache)) <= 1
        shutil.rmtree(cache)
        step += 1
    assert step > 40, "each step was walked"


def test_kills_again_and_again_come_to_an_end_and_use_no_more_than_the_models_space(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    for step in range(25, 60, 5):
        stage(forked, hub, cache, "kill", step)
        check_visible(cache, model)
        used = sum(p.stat().st_size for p in cache.rglob("*") if p.is_file())
        assert used < 3_100_000
        assert len(rig.leftovers(cache)) <= 1
    check_next_run(forked, hub, cache, model)


@pytest.mark.parametrize("fault", ["ENOSPC", "ENOSPC+", "EIO"])
def test_a_volume_that_fails_at_any_step_is_reported_and_never_half_visible(
    forked: faulty.Faulty,
    hub: localhub.LocalHub,
    tmp_path: pathlib.Path,
    model: localhub.Repo,
    fault: str,
) -> None:
    first = tmp_path / "first"
    first.mkdir()
    assert stage(forked, hub, first, fault, 0).code == 0
    for step in range(1, forked.steps + 1, 1 if fault == "ENOSPC" else 4):
        cache = tmp_path / f"cache-{step}"
        cache.mkdir()
        run = stage(forked, hub, cache, fault, step)
        wanted = (0, 14) if fault.startswith("ENOSPC") else (0, 20)
        assert run.code in wanted, (step, run.err)
        assert "Traceback" not in run.err, (step, run.err)
        if run.code == 0:
            assert rig.tree(cache / SNAPSHOT) == model.files
        check_visible(cache, model)
        check_next_run(forked, hub, cache, model)
        shutil.rmtree(cache)


@pytest.mark.parametrize("fault", ["EPERM:chmod", "EINVAL:fsync of a folder"])
def test_what_shares_on_a_network_cannot_do_is_done_without(
    forked: faulty.Faulty,
    hub: localhub.LocalHub,
    cache: pathlib.Path,
    model: localhub.Repo,
    fault: str,
) -> None:
    run = stage(forked, hub, cache, fault, 0)
    assert run.code == 0, run.err
    assert rig.tree(cache / SNAPSHOT) == model.files


def test_files_that_nobody_else_could_read_are_no_success(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with faulty.forking(tmp_path / "said", umask=0o077) as closed:
        run = stage(closed, hub, cache, "EPERM:chmod", 0)
    assert (run.code, "belongs to" in run.reason) == (15, True), run.err
    assert rig.tree(cache) == {}


def kill_half_way(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    """Kill a run when two megabytes of its weights are on the volume."""
    half = stalled(hub, after=2_000_000)
    process = rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    wait_for_bytes(cache, 2_000_000)
    process.kill()
    process.communicate()
    half.release()


def test_a_killed_run_resumes_in_the_middle_of_a_file_and_fetches_only_the_rest(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    kill_half_way(hub, cache)
    hub.seen.clear()
    check_next_run(forked, hub, cache, model)
    (seen,) = hub.asked("cdn")
    assert seen.range is not None
    assert 1_000_000 <= int(seen.range.removeprefix("bytes=").partition("-")[0]) <= 2_000_000


def test_leftovers_that_were_damaged_are_noticed_and_fetched_anew(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    kill_half_way(hub, cache)
    (leftover,) = cache.glob(".partial-*/files")
    # A node's crash can leave a file with its length and without its bytes.
    file = leftover / "a/w.safetensors"
    file.write_bytes(bytes(file.stat().st_size))
    (leftover / "a/link").symlink_to("/etc/passwd")
    (leftover / "foreign").mkdir()
    (leftover / "foreign/x").write_bytes(b"x")
    (leftover / "config.json").unlink(missing_ok=True)
    (leftover / "config.json").symlink_to("/etc/passwd")
    check_next_run(forked, hub, cache, model)
    assert pathlib.Path("/etc/passwd").read_bytes() != b"{}"


def test_a_leftover_longer_than_the_file_is_dropped(
    forked: faulty.Faulty, hub: localhub.LocalHub, cache: pathlib.Path, model: localhub.Repo
) -> None:
    kill_half_way(hub, cache)
    (leftover,) = cache.glob(".partial-*/files")
    (leftover / "a/w.safetensors").write_bytes(bytes(4_000_000))
    check_next_run(forked, hub, cache, model)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_at_once_and_the_next_one_goes_on(
    forked: faulty.Faulty,
    hub: localhub.LocalHub,
    cache: pathlib.Path,
    model: localhub.Repo,
    number: signal.Signals,
    code: int,
) -> None:
    half = stalled(hub, after=2_000_000)
    process = rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    wait_for_bytes(cache, 2_000_000)
    started = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, time.monotonic() - started < 10) == (code, True)
    assert err.splitlines()[-1].startswith("interrupted: asked to stop; what is verified is kept")
    half.release()
    hub.seen.clear()
    check_next_run(forked, hub, cache, model)
    (seen,) = hub.asked("cdn")
    assert seen.range is not None


def test_a_kill_while_unpacking_leaves_nothing_half(
    forked: faulty.Faulty, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    tar = tars.pack(*(tars.file(f"model/{n}", models.noise(1000, seed=n)) for n in range(4)))
    files = {f"model/{n}": models.noise(1000, seed=n) for n in range(4)}
    folder = tmp_path / "registry"
    folder.mkdir()
    with registries.running(folder) as registry:
        layer = registries.titled(registry.push_blob("m", tars.gz(tar)), "model")
        layer["annotations"]["io.deis.oras.content.unpack"] = "true"
        uri = registry.push("m", [{**layer, "mediaType": f"{layer['mediaType']}+gzip"}])
        target = cache / "oci" / uri.partition("@")[2].replace(":", "-")
        arguments = ("stage", uri, f"--cache={cache}", "--plain-http")
        step, killed = 1, True
        while killed:
            run = forked.run("kill", step, *arguments, environ={})
            killed = run.code == -signal.SIGKILL
            step += 1
            if target.exists():
                assert rig.tree(target) == files
                # Named before the kill: the next run proves it and fetches nothing again.
                found = forked.plain(*arguments)
                assert (found.code, found.summary["fetched"]) == (0, 0), found.err
                assert forked.plain("verify", str(cache)).code == 0
                shutil.rmtree(cache)
                cache.mkdir()
    assert step > 40


class Stall:
    """A CDN that stops after some bytes until it is released."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._on = True

    def __call__(self, exchange: localhub.Exchange) -> bool:
        if not self._on or exchange.kind != "cdn" or exchange.content is None:
            return False
        exchange.send_content(exchange.content, cut_after=self._after)
        while self._on:
            time.sleep(0.05)
        return True

    def release(self) -> None:
        self._on = False


def stalled(hub: localhub.LocalHub, *, after: int) -> Stall:
    hub.fault = Stall(after)
    return hub.fault


def wait_for_bytes(cache: pathlib.Path, count: int) -> None:
    """Until a run has written what it can of that many bytes; whole blocks count."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        sizes = [path.stat().st_size for path in cache.glob(".partial-*/files/a/*")]
        if sum(sizes) >= count // 2:
            time.sleep(0.5)
            return
        time.sleep(0.05)
    raise AssertionError("nothing arrives")
