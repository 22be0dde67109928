from gateway.demand import GRACE_AFTER_READY, Demand


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def with_clock() -> tuple[Demand, Clock, list[float]]:
    clock = Clock()
    demand = Demand(clock)
    rises: list[float] = []
    demand.on_rise(lambda: rises.append(clock.now))
    return demand, clock, rises


def test_demand_falls_at_once_when_requests_leave() -> None:
    demand, clock, _ = with_clock()
    with demand.request() as a, demand.request() as b:
        a.wait()
        b.fly()
        assert (demand.waiting, demand.in_flight, demand.total) == (1, 1, 2)
        a.fly()
        assert (demand.waiting, demand.in_flight) == (0, 2)
    assert (demand.total, demand.active(clock.now)) == (0, False)


def test_a_request_that_fails_is_counted_out_once() -> None:
    demand, _, _ = with_clock()
    try:
        with demand.request() as want:
            want.wait()
            want.leave()
            raise ValueError
    except ValueError:
        pass
    assert (demand.waiting, demand.in_flight) == (0, 0)


def test_a_lease_outlives_its_clients_and_then_ends() -> None:
    demand, clock, _ = with_clock()
    demand.lease(until=clock.now + 60)
    assert demand.active(clock.now + 59.9)
    assert not demand.active(clock.now + 60)


def test_a_later_lease_never_shortens_an_earlier_one() -> None:
    demand, clock, _ = with_clock()
    demand.lease(until=clock.now + 60)
    demand.lease(until=clock.now + 10)
    assert demand.active(clock.now + 59)


def test_what_is_left_of_a_lease_after_readiness_is_a_short_grace() -> None:
    demand, clock, _ = with_clock()
    demand.lease(until=clock.now + 300)
    demand.answered(clock.now)
    assert demand.active(clock.now + GRACE_AFTER_READY - 0.1)
    assert not demand.active(clock.now + GRACE_AFTER_READY)
    demand.answered(clock.now + 400)
    assert not demand.active(clock.now + 401), "a grace is no new lease"


def test_a_rise_is_told_once_until_the_model_is_wanted_no_more() -> None:
    demand, clock, rises = with_clock()
    with demand.request() as a:
        a.fly()
        with demand.request() as b:
            b.fly()
    assert rises == [100.0]
    clock.now = 200.0
    demand.lease(until=210.0)
    with demand.request() as c:
        c.fly()
    assert rises == [100.0, 200.0]
    clock.now = 211.0
    demand.lease(until=220.0)
    assert rises == [100.0, 200.0, 211.0], "a lease that ran out says so to nobody"


def test_the_first_request_that_has_to_wait_is_told_even_while_others_fly() -> None:
    """The replica of the flying ones may be on its way out."""
    demand, clock, rises = with_clock()
    with demand.request() as a, demand.request() as b, demand.request() as c:
        a.fly()
        clock.now = 101.0
        b.wait()
        clock.now = 102.0
        c.wait()
    assert rises == [100.0, 101.0]


def test_the_signal_belongs_to_one_span_of_demand() -> None:
    demand, clock, _ = with_clock()
    with demand.request() as a:
        a.wait()
        demand.signalled(5.0)
        demand.signalled(6.0)
        assert demand.signalled_at == 5.0
    with demand.request() as b:
        b.wait()
        assert demand.signalled_at is None
    assert not demand.active(clock.now)
