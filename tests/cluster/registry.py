"""A real OCI registry beside the node: Debian's docker-registry, with TLS and a password.

Artifacts are pushed before it starts, from this machine and over loopback; inside the rig it only
serves them.
"""

import base64
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import socket
from collections.abc import Iterator

from tests.cluster import errors, layout, machine, namespaces, programs
from tests.process.fetcher import registries

_PROGRAM = "docker-registry"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """What the registry serves, and what a client needs to be served."""

    model: str  # A URI of one good artifact.
    swapped: str  # The same, but for one byte of its weights.
    absent: str  # A digest that nothing has.
    docker_config: str
    authority: str  # The certificate to trust, as PEM.


@contextlib.contextmanager
def serving(instance: layout.Instance, files: dict[str, bytes]) -> Iterator[Served]:
    """A registry in the rig, on a port of its own, with ``files`` as an artifact.

    Raises MachineUnfit where the machine has no such program.
    """
    if shutil.which(_PROGRAM) is None or shutil.which("htpasswd") is None:
        raise errors.MachineUnfit("missing docker-registry or htpasswd: run install-packages")
    name = f"registry-{os.urandom(2).hex()}"
    folder = instance.state / name
    folder.mkdir()
    with registries.with_basic(folder) as filled:
        good = filled.push_files("models/small", files)
        swapped = filled.push_files("models/swapped", {"weights.bin": secrets.token_bytes(4096)})
        layers = filled.session.get(
            f"http://{filled.host}/v2/models/swapped/manifests/{swapped.rpartition('@')[2]}",
            headers={"Accept": registries.MANIFEST},
        ).json()["layers"]
    blob = filled.blob_path(layers[0]["digest"])
    content = bytearray(blob.read_bytes())
    content[7] ^= 1
    blob.write_bytes(content)
    _issue(folder)
    port = _free_port(instance)
    host = f"{layout.NODE_ADDRESS}:{port}"
    program = _serve(instance, name, port)
    yield Served(
        model=good.replace(filled.host, host),
        swapped=swapped.replace(filled.host, host),
        absent=f"oci://{host}/models/small@sha256:{'0' * 64}",
        docker_config=_docker_config(host),
        authority=(folder / "tls.crt").read_text(),
    )
    program.stop()


def _free_port(instance: layout.Instance) -> int:
    with namespaces.network(instance.network), socket.socket() as probe:
        probe.bind((layout.NODE_ADDRESS, 0))
        return int(probe.getsockname()[1])


def _issue(folder: pathlib.Path) -> None:
    """A certificate that is its own authority, with all that a strict client asks of one."""
    machine.call(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "30", "-subj", "/CN=registry",
        "-addext", f"subjectAltName=IP:{layout.NODE_ADDRESS}",
        "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
        "-keyout", folder / "tls.key", "-out", folder / "tls.crt",
    )  # fmt: skip


def _serve(instance: layout.Instance, name: str, port: int) -> programs.Program:
    inside = layout.STATE / name
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(inside / "root")}},
        "http": {
            "addr": f"{layout.NODE_ADDRESS}:{port}",
            "tls": {
                "certificate": str(inside / "tls.crt"),
                "key": str(inside / "tls.key"),
            },
        },
        "auth": {"htpasswd": {"realm": "rig", "path": str(inside / "htpasswd")}},
    }
    (instance.state / name / "served.json").write_text(json.dumps(config))  # JSON is YAML.
    program = programs.start(instance, name, [_PROGRAM, "serve", inside / "served.json"])

    def listens() -> bool:
        namespaces.connect(instance.network, (layout.NODE_ADDRESS, port), 1).close()
        return True

    programs.wait_until("the registry listens", listens, program=program)
    return program


def _docker_config(host: str) -> str:
    pair = base64.b64encode(f"{registries.USER}:{registries.PASSWORD}".encode()).decode()
    return json.dumps({"auths": {host: {"auth": pair}}})
