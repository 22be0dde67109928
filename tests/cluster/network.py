"""The rig's own network namespace: made, furnished with a node address, and removed."""

import os

from tests.cluster import errors, layout, machine, processes


def require_free(instance: layout.Instance) -> None:
    """A namespace of this name that outlived the clearing belongs to something else."""
    if instance.network.exists():
        raise errors.RigError(
            f"the network namespace {instance.name} exists and no running rig owns it: see who "
            f"uses it with `ip netns pids {instance.name}`, then `ip netns delete {instance.name}`"
        )


def create(instance: layout.Instance) -> None:
    machine.call("ip", "netns", "add", instance.name)
    _inside(instance, "ip", "link", "set", "lo", "up")
    # kubelet refuses a loopback address for its node, and not every kernel has dummy links: one
    # end of a veth pair carries the address, and the other end stays in the namespace as well.
    _inside(instance, "ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0p")
    _inside(instance, "ip", "link", "set", "node0p", "up")
    _inside(instance, "ip", "address", "add", f"{layout.NODE_ADDRESS}/24", "dev", "node0")
    _inside(instance, "ip", "link", "set", "node0", "up")
    # Without a default route neither kube-proxy nor Pods have one; it leads nowhere.
    _inside(instance, "ip", "route", "add", "default", "dev", "node0")
    _inside(instance, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def delete(instance: layout.Instance) -> None:
    """Remove the namespace with all its links, routes and rules; nothing if there is none."""
    if not instance.network.exists():
        return
    for process in processes.inside_network(instance.network):
        # A client of ours that outlived its rig would keep the namespace alive, unnamed.
        if process.pid != os.getpid():
            process.stop(grace=1)
    machine.call("ip", "netns", "delete", instance.name)


def _inside(instance: layout.Instance, *argv: str) -> None:
    # Not `ip netns exec`: it mounts a /sys of its own, without cgroups.
    machine.call("nsenter", f"--net={instance.network}", *argv)
