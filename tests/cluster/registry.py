"""A real OCI registry beside the node: Debian's docker-registry, with TLS and a password.

Artifacts are pushed before it starts, from this machine and over loopback; inside the rig it only
serves them.
"""

import base64
import dataclasses
import json
import pathlib
import secrets
import shutil

from tests.cluster import errors, layout, machine, namespaces, programs
from tests.process.fetcher import registries

_PROGRAM = "docker-registry"
_PORT = 5000
HOST = f"{layout.NODE_ADDRESS}:{_PORT}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """What the registry serves, and what a client needs to be served."""

    model: str  # A URI of one good artifact.
    swapped: str  # The same, but for one byte of its weights.
    absent: str  # A digest that nothing has.
    docker_config: str
    authority: str  # The certificate to trust, as PEM.


def start(instance: layout.Instance, files: dict[str, bytes]) -> Served:
    """Fill a registry with ``files`` as an artifact and start it in the rig."""
    if shutil.which("docker-registry") is None or shutil.which("htpasswd") is None:
        raise errors.MachineUnfit("missing docker-registry or htpasswd: run install-packages")
    folder = instance.state / "registry"
    shutil.rmtree(folder, ignore_errors=True)
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
    _serve(instance, folder)
    return Served(
        model=good.replace(filled.host, HOST),
        swapped=swapped.replace(filled.host, HOST),
        absent=f"oci://{HOST}/models/small@sha256:{'0' * 64}",
        docker_config=_docker_config(),
        authority=(folder / "tls.crt").read_text(),
    )


def stop(instance: layout.Instance) -> None:
    """Stop it; nothing happens where none runs."""
    found = programs.find(instance, _PROGRAM)
    if found is not None and found.alive():
        found.stop()


def _issue(folder: pathlib.Path) -> None:
    """A certificate that is its own authority, with all that a strict client asks of one."""
    machine.call(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "30", "-subj", "/CN=registry",
        "-addext", f"subjectAltName=IP:{layout.NODE_ADDRESS}",
        "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
        "-keyout", folder / "tls.key", "-out", folder / "tls.crt",
    )  # fmt: skip


def _serve(instance: layout.Instance, folder: pathlib.Path) -> None:
    inside = layout.STATE / "registry"
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(inside / "root")}},
        "http": {
            "addr": HOST,
            "tls": {
                "certificate": str(inside / "tls.crt"),
                "key": str(inside / "tls.key"),
            },
        },
        "auth": {"htpasswd": {"realm": "rig", "path": str(inside / "htpasswd")}},
    }
    (folder / "served.json").write_text(json.dumps(config))  # JSON is YAML.
    stop(instance)
    program = programs.start(instance, _PROGRAM, [_PROGRAM, "serve", inside / "served.json"])

    def listens() -> bool:
        namespaces.connect(instance.network, (layout.NODE_ADDRESS, _PORT), 1).close()
        return True

    programs.wait_until("the registry listens", listens, program=program)


def _docker_config() -> str:
    pair = base64.b64encode(f"{registries.USER}:{registries.PASSWORD}".encode()).decode()
    return json.dumps({"auths": {HOST: {"auth": pair}}})
