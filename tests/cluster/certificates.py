"""A certificate authority for one rig, and kubeconfigs that carry their certificates inside."""

import base64
import json
import pathlib

from tests.cluster import layout, machine

# A rig lives for hours at most.
_DAYS = "30"
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """Signs certificates with openssl into one folder: ``NAME.crt``, ``NAME.key``."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def create(self) -> None:
        self.folder.mkdir(parents=True)
        key, certificate = self.folder / "ca.key", self.folder / "ca.crt"
        paths = ["-keyout", str(key), "-out", str(certificate)]
        machine.call(
            "openssl", "req", "-x509", *_KEY, *paths, "-days", _DAYS, "-subj", "/CN=noctaya-rig"
        )
        # Service account tokens are signed with a key pair of their own.
        signing = self.folder / "service-accounts.key"
        machine.call("openssl", "genrsa", "-out", signing, "2048")
        machine.call(
            "openssl", "rsa", "-in", signing, "-pubout", "-out", signing.with_suffix(".pub")
        )

    def issue(self, name: str, subject: str, *alternatives: str) -> None:
        """``alternatives`` are names or addresses as ``DNS:...`` and ``IP:...``."""
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        lines = ["extendedKeyUsage=serverAuth,clientAuth"]
        if alternatives:
            lines.append(f"subjectAltName={','.join(alternatives)}")
        extensions.write_text("\n".join(lines))
        key = self.folder / f"{name}.key"
        machine.call("openssl", "req", *_KEY, "-keyout", key, "-out", request, "-subj", subject)
        machine.call(
            "openssl", "x509", "-req", "-in", request, "-days", _DAYS, "-CAcreateserial",
            "-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key",
            "-out", self.folder / f"{name}.crt", "-extfile", extensions,
        )  # fmt: skip

    def kubeconfig(self, name: str) -> str:
        """For the holder of the named client certificate."""
        return kubeconfig(
            self.folder,
            {
                "client-certificate-data": _encoded(self.folder / f"{name}.crt"),
                "client-key-data": _encoded(self.folder / f"{name}.key"),
            },
        )


def kubeconfig(folder: pathlib.Path, user: dict[str, str]) -> str:
    """A kubeconfig for the rig's API server with any kind of credentials."""
    cluster = {
        "server": layout.API_URL,
        "certificate-authority-data": _encoded(folder / "ca.crt"),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user"}}],
            "current-context": "rig",
        }
    )


def _encoded(file: pathlib.Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
