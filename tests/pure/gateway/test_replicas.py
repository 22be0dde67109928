from typing import Any

import pytest

from gateway.replicas import Address, Listed, Replica, ReplicaSet, parse


def listed(
    host: str = "10.0.0.1", *, ready: bool = False, terminating: bool = False, pod: str = "a"
) -> Listed:
    return Listed(address=Address(host, 8000), pod=pod, ready=ready, terminating=terminating)


def a_slice(*endpoints: dict[str, Any], port: str | None = "http") -> dict[str, Any]:
    return {
        "addressType": "IPv4",
        "ports": [{"name": "metrics", "port": 9000}, {"name": port, "port": 8000}],
        "endpoints": list(endpoints),
    }


def an_endpoint(
    host: str = "10.0.0.1", pod: str = "a", **conditions: bool | None
) -> dict[str, Any]:
    return {"addresses": [host], "conditions": conditions, "targetRef": {"uid": pod}}


def only(replicas: ReplicaSet) -> Replica:
    (replica,) = replicas.ready() + replicas.starting()
    return replica


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        pytest.param(an_endpoint(ready=False, serving=False), listed(), id="starting"),
        pytest.param(an_endpoint(ready=True), listed(ready=True), id="ready"),
        pytest.param(an_endpoint(), listed(ready=True), id="no word on ready means ready"),
        pytest.param(
            an_endpoint(ready=False, serving=True, terminating=True),
            listed(terminating=True),
            id="terminating",
        ),
    ],
)
def test_conditions_are_read_as_kubernetes_means_them(
    endpoint: dict[str, Any], expected: Listed
) -> None:
    assert parse([a_slice(endpoint)], port_name="http") == (expected,)


def test_slices_without_the_port_or_with_names_hold_no_replica() -> None:
    other = a_slice(an_endpoint(), port="grpc")
    named = a_slice(an_endpoint("10.0.0.2")) | {"addressType": "FQDN"}
    empty = {"addressType": "IPv4", "ports": None, "endpoints": None}
    assert parse([other, named, empty], port_name="http") == ()


def test_an_address_that_moves_between_slices_counts_once_as_what_can_serve() -> None:
    old = a_slice(an_endpoint(pod="old", ready=False, terminating=True))
    new = a_slice(an_endpoint(pod="new", ready=True))
    for order in ([old, new], [new, old]):
        assert parse(order, port_name="http") == (listed(ready=True, pod="new"),)


def test_ipv6_addresses_are_written_with_brackets() -> None:
    piece = a_slice(an_endpoint("fd00::0:1", ready=True)) | {"addressType": "IPv6"}
    (found,) = parse([piece], port_name="http")
    assert str(found.address) == "[fd00::1]:8000"


@pytest.mark.parametrize(
    "wrong",
    [{"ports": 1}, "text", a_slice({"addresses": ["not an address"]}), a_slice({"addresses": []})],
)
def test_what_is_no_endpointslice_is_an_error_and_not_an_empty_list(wrong: Any) -> None:
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        parse([wrong], port_name="http")


def test_an_answer_counts_more_than_kubernetes_not_ready() -> None:
    replicas = ReplicaSet()
    replicas.replace([listed()])
    assert replicas.choose() is None
    replicas.answered(only(replicas))
    assert replicas.choose() is only(replicas)
    replicas.replace([listed(ready=True)])
    replicas.replace([listed(ready=False)])
    assert replicas.choose() is only(replicas)


def test_a_refusal_counts_more_than_kubernetes_ready() -> None:
    replicas = ReplicaSet()
    replicas.replace([listed(ready=True)])
    replicas.refused(only(replicas))
    assert replicas.choose() is None
    assert replicas.counts() == {"ready": 0, "starting": 1, "terminating": 0}
    replicas.answered(only(replicas))
    assert replicas.choose() is not None


@pytest.mark.parametrize("now", [[listed(ready=True, terminating=True)], []], ids=["told", "gone"])
def test_a_terminating_or_vanished_replica_gets_nothing_whatever_it_answered(
    now: list[Listed],
) -> None:
    replicas = ReplicaSet()
    replicas.replace([listed(ready=True)])
    replica = only(replicas)
    replicas.answered(replica)
    replicas.replace(now)
    assert replica.terminating
    assert replicas.choose() is None


def test_a_new_pod_on_an_old_address_has_to_prove_itself() -> None:
    replicas = ReplicaSet()
    replicas.replace([listed(pod="old")])
    old = only(replicas)
    replicas.answered(old)
    replicas.replace([listed(pod="new")])
    assert old.gone
    assert replicas.choose() is None


def test_listeners_hear_of_changes_and_of_nothing_else() -> None:
    replicas = ReplicaSet()
    changes: list[dict[str, int]] = []
    replicas.on_change(lambda: changes.append(replicas.counts()))
    replicas.replace([])
    replicas.replace([listed()])
    replicas.replace([listed()])
    replicas.answered(only(replicas))
    replicas.answered(only(replicas))
    assert [change["ready"] for change in changes] == [0, 1]


def test_the_least_loaded_is_chosen_and_equals_take_turns() -> None:
    replicas = ReplicaSet()
    replicas.replace([listed(f"10.0.0.{n}", ready=True) for n in range(3)])
    chosen = []
    for _ in range(30):
        replica = replicas.choose()
        assert replica is not None
        replica.in_flight += 1
        chosen.append(replica)
    assert sorted(replica.in_flight for replica in set(chosen)) == [10, 10, 10]
    assert len({replica.address for replica in chosen[:3]}) == 3
    for replica in set(chosen):
        replica.in_flight = 0
    assert len({r.address for r in [replicas.choose() for _ in range(3)] if r is not None}) == 3
