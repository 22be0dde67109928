import pytest

from gateway.admission import Admission, Full


def test_the_request_above_the_limit_is_refused_and_leaves_no_trace() -> None:
    admission = Admission(slots=2, held_bytes=100)
    with admission.slot(), admission.slot():
        with pytest.raises(Full, match="requests"), admission.slot():
            pytest.fail("admitted")
        assert admission.taken == 2
    assert admission.taken == 0


def test_bytes_that_do_not_fit_are_refused_and_given_back_with_the_slot() -> None:
    admission = Admission(slots=9, held_bytes=100)
    with admission.slot() as a:
        a.hold_bytes(60)
        with pytest.raises(Full, match="bytes"), admission.slot() as b:
            b.hold_bytes(30)
            b.hold_bytes(11)
        assert admission.held_bytes == 60
        a.hold_bytes(40)
    assert (admission.taken, admission.held_bytes) == (0, 0)


def test_a_slot_is_given_back_whatever_is_raised_in_it() -> None:
    admission = Admission(slots=1, held_bytes=1)
    for error in (ValueError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error), admission.slot():
            raise error
    assert admission.taken == 0
