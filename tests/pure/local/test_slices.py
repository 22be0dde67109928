"""What the gateway is told about replicas."""

import json
from pathlib import Path

import pytest

from local import slices
from local.errors import Failure
from local.slices import Endpoint, State


@pytest.mark.parametrize(
    ("state", "ready", "serving", "terminating"),
    [
        ("starting", False, False, False),
        ("ready", True, True, False),
        ("terminating", False, True, True),
    ],
)
def test_a_replica_is_one_slice_with_its_own_port(
    state: State, ready: bool, serving: bool, terminating: bool
) -> None:
    endpoint = Endpoint(pod="m-backend-1", port=4321, state=state)
    listed = slices.slice_list([endpoint], namespace="ns", service="m-backend", port_name="http")
    assert listed["kind"] == "EndpointSliceList"
    (found,) = listed["items"]
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "m-backend"}
    assert found["ports"] == [{"name": "http", "port": 4321, "protocol": "TCP"}]
    (entry,) = found["endpoints"]
    assert entry["addresses"] == ["127.0.0.1"]
    assert entry["conditions"] == {
        "ready": ready,
        "serving": serving,
        "terminating": terminating,
    }


def test_a_list_is_replaced_whole_and_leaves_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    for number in range(3):
        slices.write(file, {"number": number})
        assert json.loads(file.read_text()) == {"number": number}
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=f"^{tmp_path}/gone: cannot be written: No such file"):
        slices.write(tmp_path / "gone" / "list.json", {})
