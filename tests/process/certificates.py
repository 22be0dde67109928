"""Certificates for tests, and Secrets as the kubelet mounts them."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Authority:
    """A certificate authority, and what it vouches for."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self.certificate = self._folder / "ca.crt"
        self._run(
            "req", "-x509", *_KEY, "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.crt"
        )

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Key and certificate for 127.0.0.1."""
        self._run(
            "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        (self._folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        self._run(
            *("x509", "-req", "-in", f"{name}.csr", *signing),
            *("-extfile", "names", "-out", f"{name}.crt"),
        )
        return tuple((self._folder / f"{name}.{end}").read_bytes() for end in ("key", "crt"))  # type: ignore[return-value]

    def secret(self, name: str) -> dict[str, bytes]:
        """A Secret's data for a server at 127.0.0.1."""
        key, certificate = self.issue(name)
        return {"tls.key": key, "tls.crt": certificate, "ca.crt": self.certificate.read_bytes()}

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)


class Mounted:
    """A Secret as the kubelet mounts it: replaced whole, by one rename."""

    def __init__(self, folder: Path, name: str = "mounted") -> None:
        self._folder = folder
        self._turn = 0
        self.path = folder / name

    def write(self, data: Mapping[str, bytes]) -> None:
        self._turn += 1
        version = self._folder / f"{self.path.name}-{self._turn}"
        version.mkdir()
        for key, value in data.items():
            (version / key).write_bytes(value)
        link = self._folder / "link"
        link.symlink_to(version)
        os.replace(link, self.path)
