"""Who owns a partial folder: on one machine, between nodes, and when clocks or owners lie."""

import collections.abc
import dataclasses
import json
import os
import pathlib
import threading
import time

import pytest

from fetcher import partials
from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process
# Short enough to wait for, with the same order as in earnest; a busy machine may pause for 1 s.
TIMING = partials.Timing(sign=0.2, silent=4.0, confirm=2.0, abandoned=60.0, look=0.05)


def never(holder: str) -> bool:
    return False


class Elsewhere:
    """An owner on another node: only its signs can be seen."""

    def __init__(self, root: pathlib.Path, key: str, *, old: float = 0.0) -> None:
        self.path = root / f"{partials.PREFIX}{key}-elsewhere"
        (self.path / partials.FILES).mkdir(parents=True)
        self._old = old
        self._count = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sign()

    def sign(self) -> None:
        self._count += 1
        owner = self.path / "owner.json"
        body = {"host": "node-b", "boot": "other", "count": self._count}
        fd = os.open(owner, os.O_WRONLY | os.O_CREAT)
        os.pwrite(fd, json.dumps(body).encode().ljust(512), 0)
        os.close(fd)
        past = time.time() - self._old
        os.utime(owner, (past, past))

    def live(self) -> None:
        self._thread.start()

    def die(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(TIMING.sign):
            self.sign()


def test_an_owner_that_signs_is_waited_for_and_one_that_stopped_is_replaced(
    tmp_path: pathlib.Path,
) -> None:
    other = Elsewhere(tmp_path, "key")
    other.live()
    told: list[tuple[float, str]] = []

    def waiting(holder: str) -> bool:
        told.append((time.monotonic(), holder))
        if time.monotonic() - told[0][0] > 4.0:
            other.die()
        time.sleep(TIMING.look)
        return False

    held = partials.hold(tmp_path, "key", TIMING, waiting=waiting)
    assert held is not None
    assert told[-1][0] - told[0][0] > 4.0 + TIMING.silent - 0.5
    assert {holder for _, holder in told} == {"node-b"}
    assert not other.path.exists()
    held.remove()


def test_waiting_ends_when_the_model_is_there(tmp_path: pathlib.Path) -> None:
    other = Elsewhere(tmp_path, "key")
    other.live()
    assert partials.hold(tmp_path, "key", TIMING, waiting=lambda holder: True) is None
    other.die()


def test_a_clock_that_jumped_does_not_make_a_living_owner_dead(tmp_path: pathlib.Path) -> None:
    other = Elsewhere(tmp_path, "key", old=86_400)
    other.live()
    started = time.monotonic()

    def waiting(holder: str) -> bool:
        time.sleep(TIMING.look)
        return time.monotonic() - started > 2 * TIMING.silent

    assert partials.hold(tmp_path, "key", TIMING, waiting=waiting) is None
    other.die()
    assert other.path.exists()


@pytest.mark.parametrize("old", [86_400.0, -86_400.0], ids=["past", "future"])
def test_a_dead_owners_folder_is_taken_over_whatever_time_its_sign_bears(
    tmp_path: pathlib.Path, old: float
) -> None:
    other = Elsewhere(tmp_path, "key", old=old)
    (other.path / partials.FILES / "kept").write_bytes(b"x")
    started = time.monotonic()

    def waiting(holder: str) -> bool:
        time.sleep(TIMING.look)
        return False

    held = partials.hold(tmp_path, "key", TIMING, waiting=waiting)
    assert held is not None
    waited = time.monotonic() - started
    assert waited > (TIMING.confirm if old > 0 else TIMING.silent) - 0.1
    assert (held.files / "kept").read_bytes() == b"x"
    held.release()
    assert partials.hold(tmp_path, "key", TIMING, waiting=never) is not None


def test_an_owner_whose_folder_was_taken_writes_no_more(tmp_path: pathlib.Path) -> None:
    first = partials.hold(tmp_path, "key", TIMING, waiting=never)
    assert first is not None
    first.may_write()
    first.path.rename(tmp_path / ".partial-key-taken")
    time.sleep(4 * TIMING.sign)
    with pytest.raises(partials.Lost):
        first.may_write()


def test_an_owner_that_cannot_sign_stops_before_others_take_over(tmp_path: pathlib.Path) -> None:
    first = partials.hold(tmp_path, "key", TIMING, waiting=never)
    assert first is not None
    # The volume is away: signing fails, and is not the news that the folder is gone.
    (first.path / "owner.json").unlink()
    (first.path / "owner.json").mkdir()
    first.may_write()
    time.sleep(TIMING.fence + 2 * TIMING.sign)
    assert TIMING.fence < TIMING.silent
    with pytest.raises(partials.Lost):
        first.may_write()


def test_of_many_takers_one_gets_the_folder(tmp_path: pathlib.Path) -> None:
    other = Elsewhere(tmp_path, "key", old=86_400)
    (other.path / partials.FILES / "kept").write_bytes(b"x")
    kept: list[bool] = []

    def take() -> None:
        held = partials.hold(tmp_path, "key", TIMING, waiting=lambda h: len(kept) > 0)
        if held is not None:
            kept.append((held.files / "kept").exists())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.count(True) == 1


def test_of_many_that_start_at_the_same_moment_one_at_a_time_holds_a_folder(
    tmp_path: pathlib.Path,
) -> None:
    ready, holders, most, taken = threading.Barrier(6), [0], [0], [0]
    lock = threading.Lock()

    def waiting(holder: str) -> bool:
        time.sleep(TIMING.look)
        return False

    def run() -> None:
        ready.wait()
        held = partials.hold(tmp_path, "key", TIMING, waiting=waiting)
        assert held is not None
        with lock:
            holders[0] += 1
            taken[0] += 1
            most[0] = max(most[0], holders[0])
        time.sleep(0.2)
        with lock:
            holders[0] -= 1
        held.remove()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert (taken[0], most[0]) == (6, 1)


def test_only_other_models_old_and_silent_leftovers_are_collected(tmp_path: pathlib.Path) -> None:
    dead = Elsewhere(tmp_path, "dead", old=600)
    recent = Elsewhere(tmp_path, "recent", old=10)
    living = Elsewhere(tmp_path, "living", old=600)
    living.live()
    partials.collect(tmp_path, TIMING, stop=threading.Event())
    living.die()
    assert not dead.path.exists()
    assert recent.path.exists()
    assert living.path.exists()


def test_collecting_does_not_follow_links(tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    root = tmp_path / "root"
    root.mkdir()
    dead = Elsewhere(root, "dead", old=600)
    (dead.path / partials.FILES / "link").symlink_to(outside)
    (root / ".partial-link-1").symlink_to(outside)
    partials.collect(root, TIMING, stop=threading.Event())
    assert not dead.path.exists()
    assert (outside / "precious").exists()


@dataclasses.dataclass
class Slow:
    """A CDN that takes its time, and counts."""

    seconds: float
    count: int = 0

    def __call__(self, exchange: localhub.Exchange) -> bool:
        if exchange.kind == "cdn":
            self.count += 1
            time.sleep(self.seconds)
        return False


@pytest.fixture(autouse=True)
def model(hub: localhub.LocalHub) -> localhub.Repo:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    return hub.repos["org/m"]


def outcomes(
    hub: localhub.LocalHub, cache: pathlib.Path, count: int
) -> collections.abc.Iterator[tuple[int, str]]:
    runs = [
        rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
        for _ in range(count)
    ]
    for run in runs:
        _, err = run.communicate(timeout=120)
        yield run.returncode, err


def test_several_runs_at_once_fetch_the_model_once(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    hub.fault = slow = Slow(seconds=3.0)
    found = list(outcomes(hub, cache, 3))
    assert [code for code, _ in found] == [0, 0, 0], found
    assert sum("waiting for the run on" in err for _, err in found) >= 2
    assert slow.count == 2, "each shard once"
    assert rig.leftovers(cache) == []
    assert rig.run("verify", str(cache)).code == 0


def test_a_run_that_waited_goes_on_with_what_a_killed_one_left(
    hub: localhub.LocalHub, cache: pathlib.Path
) -> None:
    hub.fault = Slow(seconds=4.0)
    first = rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    while not list(cache.glob(".partial-*/files/config.json")):
        time.sleep(0.05)
    second = rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    time.sleep(1.5)
    first.kill()
    first.communicate()
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "waiting for the run on" in err
    assert len([seen for seen in hub.asked("resolve") if "config.json" in seen.target]) == 1
    assert rig.leftovers(cache) == []


def test_runs_for_different_models_do_not_meet(hub: localhub.LocalHub, cache: pathlib.Path) -> None:
    hub.repos["org/n"] = localhub.Repo(files={"n.json": b"{}"})
    hub.fault = Slow(seconds=2.0)
    first = rig.start("stage", "hf://org/m", f"--cache={cache}", environ=hub.environ())
    time.sleep(1)
    assert rig.stage("hf://org/n", cache, environ=hub.environ()).code == 0
    first.communicate(timeout=60)
    assert first.returncode == 0
