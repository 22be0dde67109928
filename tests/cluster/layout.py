"""Where the rig keeps things, and the fixed addresses inside its network.

Nothing is written inside the repository. An *instance* is one rig with names of its own, so that
two checkouts, or a test of the rig beside the rig, do not meet.
"""

import dataclasses
import hashlib
import os
import pathlib
import tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# The tag of the project's images, here as in the manifests that ship.
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]

# The state folder as seen from inside the rig's mount namespace.
STATE = pathlib.PurePosixPath("/run/noctaya")

NODE_NAME = "rig"
NODE_ADDRESS = "10.111.0.1"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"
API_URL = f"https://{NODE_ADDRESS}:6443"

PAUSE_IMAGE = "rig.local/pause:1"
BUSYBOX_IMAGE = "rig.local/busybox:1"


def cache() -> pathlib.Path:
    """The folder for what is worth keeping between runs, and for the instances' state."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "noctaya" / "rig"


@dataclasses.dataclass(frozen=True)
class Instance:
    """The names that one rig owns on the machine."""

    name: str

    @property
    def state(self) -> pathlib.Path:
        return cache() / "instances" / self.name

    @property
    def network(self) -> pathlib.Path:
        return pathlib.Path("/run/netns") / self.name

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.state / "admin.kubeconfig"

    @property
    def audit_log(self) -> pathlib.Path:
        return self.state / "audit.log"

    def log(self, program: str) -> pathlib.Path:
        return self.state / "logs" / f"{program}.log"


def instance(suffix: str = "") -> Instance:
    """The instance of this checkout; a suffix, or ``NOCTAYA_RIG``, makes another one."""
    checkout = hashlib.sha256(str(REPOSITORY).encode()).hexdigest()[:6]
    parts = ["noctaya-rig", checkout, os.environ.get("NOCTAYA_RIG", ""), suffix]
    return Instance("-".join(part for part in parts if part))
