"""The life of a rig: up, down, and nothing left after either end, whatever was killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import cgroups, errors, keeper, layout, machine, processes, programs, rig
from tests.cluster import cluster as running

pytestmark = pytest.mark.alone

_SUFFIX = "spare"


@pytest.fixture
def spare(fit: None) -> Iterator[layout.Instance]:
    """An instance beside the session's, for tests that start and kill it."""
    instance = layout.instance(_SUFFIX)
    rig.down(instance)
    yield instance
    rig.down(instance)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["up", "--bare", "--leashed"], "is up in", id="leashed"),
        pytest.param(["up", "--bare"], "control plane:", id="on-the-way-up"),
    ],
)
def test_a_starter_that_is_killed_takes_all_with_it(
    spare: layout.Instance, tmp_path: pathlib.Path, arguments: list[str], line: str
) -> None:
    log = tmp_path / "log"
    with open(log, "w") as out:
        starter = subprocess.Popen(command(*arguments), stdout=out, stderr=out)
    until(line, lambda: line in log.read_text(), seconds=120)
    inside = processes.inside_network(spare.network)
    assert len(inside) > 4
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    until("nothing is left", lambda: left_of(spare) == [], seconds=30)
    assert [process for process in inside if process.alive()] == []


def test_a_killed_keeper_is_cleared_after_by_down(spare: layout.Instance) -> None:
    run("up", "--bare")
    kept = keeper.read(spare)
    assert kept is not None
    started = programs.recorded(spare)
    kept.keeper.signal(signal.SIGKILL)
    until("its programs are gone", lambda: not any(p.alive() for p in started), seconds=10)
    run("down")
    assert left_of(spare) == []


def test_up_and_down_can_be_repeated(spare: layout.Instance) -> None:
    run("up", "--bare")
    assert "already running" in run("up", "--bare").stdout
    assert "v1.36" in run("kubectl", "version").stdout
    run("down")
    assert left_of(spare) == []
    run("down")
    assert left_of(spare) == []


def test_keda_comes_goes_and_leaves_no_kind_behind(spare: layout.Instance) -> None:
    # Not on the session's rig, where others rely on KEDA.
    rig.up(spare, print, leashed=True)
    cluster = running.Cluster(spare)
    cluster.keda_install()
    assert cluster.program("keda-operator").alive()
    cluster.keda_stop()
    assert not cluster.program("keda-operator").alive()
    cluster.keda_start()
    cluster.keda_stop()
    cluster.keda_uninstall_crds()
    assert "keda.sh" not in cluster.kubectl("get", "crd", "--output=name")


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_strange_namespace_is_left_alone_in_one_line(
    spare: layout.Instance, command: str
) -> None:
    machine.call("ip", "netns", "add", spare.name)
    try:
        done = run(command, check=False)
        assert done.returncode == 1
        assert f"ip netns delete {spare.name}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert spare.network.exists()
    finally:
        machine.call("ip", "netns", "delete", spare.name)


def test_an_ordinary_user_is_told_to_be_root(fit: None) -> None:
    # In a process of its own, which becomes nobody after the imports: nobody may not be able to
    # read the checkout.
    code = (
        "import os, sys; from tests.cluster import __main__ as me; os.setuid(65534); "
        "sys.argv[1:] = ['up']; sys.exit(me.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=layout.REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "run it as root" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_program_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, fit: None
) -> None:
    monkeypatch.setattr(machine, "SEARCH_PATH", "/nonexistent")
    with pytest.raises(
        errors.MachineUnfit, match=r"missing buildah.*tests/cluster/install-packages"
    ):
        machine.require()
    with pytest.raises(errors.MachineUnfit, match="missing go: install Go"):
        machine.require_go()


@pytest.mark.parametrize(
    ("required", "outcome"), [("", "1 skipped"), ("1", "1 error")], ids=["skipped", "required"]
)
def test_an_unfit_machine_skips_the_level_unless_it_is_required(
    required: str, outcome: str
) -> None:
    code = (
        "import sys, pytest; from tests.cluster import machine; machine.SEARCH_PATH = ''; "
        "sys.exit(pytest.main(['-rsE', '-p', 'no:cacheprovider', sys.argv[1]]))"
    )
    test = "tests/cluster/test_fixture.py::test_a_service_is_reached_from_the_tests_own_process"
    done = subprocess.run(
        [sys.executable, "-c", code, test],
        cwd=layout.REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NOCTAYA_REQUIRE_CLUSTER": required},
    )
    assert outcome in done.stdout
    assert "install-packages" in done.stdout or "run it as root" in done.stdout


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.cluster", "--instance", _SUFFIX, *arguments]


def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), cwd=layout.REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def until(what: str, reached: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def left_of(instance: layout.Instance) -> list[str]:
    """All that may be left of a rig on this machine, found by other means than the rig's own."""
    found = [str(path) for path in (instance.network, instance.state) if path.exists()]
    for folder, names, _ in os.walk(cgroups.ROOT):
        found += [f"{folder}/{name}" for name in names if name == instance.name]
    found += [
        line
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        if instance.name in line
    ]
    found += [words for words in command_lines() if instance.name in words.split("/")[-1]]
    return found


def command_lines() -> list[str]:
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        except OSError:
            continue
    return found
