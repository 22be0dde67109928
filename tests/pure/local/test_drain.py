"""When an engine counts as busy."""

import pytest

from local import drain

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@pytest.mark.parametrize(
    ("exposition", "busy"),
    [
        pytest.param("", False, id="says nothing"),
        pytest.param('vllm:num_requests_running{engine="0"} 0.0', False, id="idle"),
        pytest.param('vllm:num_requests_running{engine="0"} 2.0', True, id="running"),
        pytest.param("vllm:num_requests_waiting 1", True, id="waiting, without labels"),
        pytest.param('vllm:num_requests_waiting{a="} 0"} 1e+01 17', True, id="with a time stamp"),
        pytest.param('vllm:num_requests_waiting_by_reason{a="b"} 3', False, id="another metric"),
        pytest.param("# HELP vllm:num_requests_running 5", False, id="a comment"),
    ],
)
def test_an_engine_is_busy_while_a_gauge_is_above_zero(exposition: str, busy: bool) -> None:
    assert drain.busy(f"other 7\n{exposition}\n", GAUGES) is busy
