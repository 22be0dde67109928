"""The EndpointSliceList that the gateway reads instead of a cluster's."""

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from local.errors import Failure

# A process has no Pod address of its own; its port tells it from the others.
ADDRESS = "127.0.0.1"

State = Literal["starting", "ready", "terminating"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
    pod: str
    port: int
    state: State


def slice_list(
    endpoints: Iterable[Endpoint], *, namespace: str, service: str, port_name: str
) -> dict[str, Any]:
    """One slice a replica, for ports are a slice's and every replica has its own."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSliceList",
        "metadata": {},
        "items": [
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{service}-{endpoint.pod}",
                    "namespace": namespace,
                    "labels": {"kubernetes.io/service-name": service},
                },
                "addressType": "IPv4",
                "ports": [{"name": port_name, "port": endpoint.port, "protocol": "TCP"}],
                "endpoints": [_entry(endpoint, namespace)],
            }
            for endpoint in endpoints
        ],
    }


def write(path: Path, value: dict[str, Any]) -> None:
    """Replace ``path`` by rename: a reader sees the old list or the new, never half of one.

    Raises Failure where the folder takes no file.
    """
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(value))
        os.replace(fresh, path)
    except OSError as e:
        raise Failure(f"{path.parent}: cannot be written: {e.strerror}; is the disk full?") from e


def _entry(endpoint: Endpoint, namespace: str) -> dict[str, Any]:
    return {
        "addresses": [ADDRESS],
        "conditions": {
            "ready": endpoint.state == "ready",
            # As on a cluster: a replica that answered goes on serving while it drains.
            "serving": endpoint.state != "starting",
            "terminating": endpoint.state == "terminating",
        },
        "targetRef": {"kind": "Pod", "namespace": namespace, "name": endpoint.pod},
    }
