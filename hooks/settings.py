"""What the installation decides, read once from the environment at the edge.

The pure code takes a `Settings` as an argument and never looks at the environment itself.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal, cast, get_args

PullPolicy = Literal["Always", "IfNotPresent", "Never"]


class SettingsError(Exception):
    """The environment does not hold usable settings; the message says which variable and why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths:
    """Where things stand in an engine's container; the local runner sets its own."""

    cache: str = "/cache"
    models: str = "/models"
    scratch: str = "/tmp"  # noqa: S108 - a path inside a container, on a volume of its own.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the hooks."""

    gateway_image: str
    fetcher_image: str = ""  # Empty: a service that stages its weights is told that it cannot.
    gateway_replicas: int = 1
    image_pull_policy: PullPolicy = "IfNotPresent"
    host_path_root: str = ""  # A folder of each node. Empty: HostPath caches are refused.
    paths: Paths = Paths()


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The settings in ``environment``. Raises SettingsError."""
    image = environment.get("NOCTAYA_GATEWAY_IMAGE", "")
    if not image:
        raise SettingsError("NOCTAYA_GATEWAY_IMAGE is not set; set it to the gateway's image")
    policy = environment.get("NOCTAYA_IMAGE_PULL_POLICY", "IfNotPresent")
    if policy not in get_args(PullPolicy):
        raise SettingsError(
            f"NOCTAYA_IMAGE_PULL_POLICY is {policy!r}; set it to Always, IfNotPresent or Never"
        )
    return Settings(
        gateway_image=image,
        fetcher_image=environment.get("NOCTAYA_FETCHER_IMAGE", ""),
        gateway_replicas=_replicas(environment.get("NOCTAYA_GATEWAY_REPLICAS", "1")),
        image_pull_policy=cast(PullPolicy, policy),
        host_path_root=_host_path_root(environment.get("NOCTAYA_HOST_PATH_ROOT", "")),
    )


def _replicas(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SettingsError(f"NOCTAYA_GATEWAY_REPLICAS is {text!r}; set it to a number from 1")
    return int(text)


def _host_path_root(text: str) -> str:
    """The folder without a slash at its end; each service gets one of its own in it."""
    if not text:
        return ""
    parts = text.rstrip("/").split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise SettingsError(
            f"NOCTAYA_HOST_PATH_ROOT is {text!r}; set it to an absolute folder of the nodes that is"
            " not their root, without empty, . or .. parts, like /var/lib/noctaya"
        )
    return "/".join(parts)
