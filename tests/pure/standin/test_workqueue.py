"""The queue hands each key to one worker at a time, and backs off from failures."""

from __future__ import annotations

import pytest

from tests.cluster.standin import workqueue


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def queue(clock: Clock | None = None) -> workqueue.WorkQueue[str]:
    return workqueue.WorkQueue(clock or Clock())


def drain(q: workqueue.WorkQueue[str]) -> list[str | None]:
    """Everything that is due now, in order; the queue is of no further use."""
    out = []
    q.add("end of test")
    while (key := q.get()) != "end of test":
        out.append(key)
    return out


def test_a_key_that_is_added_twice_comes_up_once() -> None:
    q = queue()
    q.add("a")
    q.add("b")
    q.add("a")
    assert drain(q) == ["a", "b"]


def test_a_key_added_while_it_is_held_comes_up_after_its_release() -> None:
    q = queue()
    q.add("a")
    assert q.get() == "a"
    q.add("a")
    q.add("b")
    assert q.get() == "b"
    q.done("a")
    assert q.get() == "a"


def test_the_earliest_of_several_delays_counts() -> None:
    clock = Clock()
    q = queue(clock)
    q.add("a", after=10)
    q.add("a", after=5)
    q.add("a", after=60)
    clock.now += 5
    assert drain(q) == ["a"]


def test_a_delayed_key_waits() -> None:
    q = queue()
    q.add("a", after=0.001)
    assert drain(q) == []


def test_failures_double_the_wait_until_success() -> None:
    q = queue()
    assert [q.fail("a") for _ in range(3)] == pytest.approx([0.005, 0.01, 0.02])
    q.forget("a")
    assert q.fail("a") == pytest.approx(0.005)


def test_the_wait_is_bounded() -> None:
    assert workqueue.backoff_seconds(500) == 1000.0


def test_a_closed_queue_gives_nothing() -> None:
    q = queue()
    q.add("a")
    q.close()
    assert q.get() is None
