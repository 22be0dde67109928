"""However ``noctaya up`` ends, nothing that it started is left: no process and no file."""

import signal
from collections.abc import Iterator

import pytest

from tests.process.local.conftest import Manifests, Start, Up, wait_until_gone


@pytest.fixture
def serving(up: Start, manifests: Manifests) -> Up:
    """With one engine, whose own child does not end by itself."""
    manifests.command(
        "sh", "-c", 'sleep 1000 & exec noctaya-echo --tokens-per-second 5 "$@"', "engine"
    )
    running = up(manifests.write())
    running.wait_until_it_sleeps()
    running.client.completions.create(model="echo", prompt="Hello", max_tokens=1)
    names = {process.name() for process in running.tree()}
    assert "sleep" in names
    return running


@pytest.fixture(scope="module", autouse=True)
def _heard() -> Iterator[None]:
    """Under nohup every child inherits SIGHUP as ignored, and noctaya leaves that as it is."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything(serving: Up, number: signal.Signals) -> None:
    tree = serving.tree()
    assert serving.end(number) == 0
    wait_until_gone(tree, seconds=0)
    assert serving.err.read_text() == ""
    assert list(serving.temporary.iterdir()) == []


def test_a_request_in_flight_does_not_keep_it(serving: Up) -> None:
    tree = serving.tree()
    body = {"ignore_eos": True, "max_tokens": 1000}
    stream = serving.client.completions.create(
        model="echo", prompt="Hello", stream=True, extra_body=body
    )
    next(iter(stream))
    assert serving.end() == 0
    wait_until_gone(tree, seconds=0)


def test_nothing_outlives_a_kill(serving: Up) -> None:
    tree = serving.tree()
    assert len(tree) >= 4  # Keeper, gateway, engine and the engine's child.
    assert list(serving.temporary.iterdir()) != []
    serving.process.kill()
    wait_until_gone(tree)
    assert list(serving.temporary.iterdir()) == []
