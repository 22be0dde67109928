"""What gateways are given, and what they are never kept from by it."""

from __future__ import annotations

from tests.pure.hooks.world import Obj, World, service

KEY = {"authentication": {"secretRef": {"name": "clients", "key": "key"}}}


def pod(world: World, component: str = "gateway") -> Obj:
    world.settle()
    found: Obj = world.deployment(component)["spec"]["template"]["spec"]
    return found


def test_a_missing_key_does_not_keep_a_gateway_from_starting() -> None:
    """It answers 503 itself; one that does not start would cut KEDA off."""
    assert pod(World(service(endpoint=KEY)))["volumes"][0]["secret"]["optional"] is True


def test_a_key_is_read_where_it_is_mounted_and_follows_its_secret() -> None:
    container = pod(World(service(endpoint=KEY)))["containers"][0]
    [mount] = container["volumeMounts"]
    assert f"--api-key-file={mount['mountPath']}/key" in container["args"]
    assert mount["readOnly"] is True
    assert "subPath" not in mount
