"""Reads a docker config (`kubernetes.io/dockerconfigjson`) for one repository's credentials.

Only `auths` with what is written there: `credsStore` and `credHelpers` name programs of somebody's
laptop, which no image of ours has, and are refused in words when they would be needed.
"""

import base64
import dataclasses
import json
import pathlib
import typing

from fetcher import errors

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a registry may be shown; at most one of the three kinds is set."""

    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    identity_token: str = dataclasses.field(default="", repr=False)
    registry_token: str = dataclasses.field(default="", repr=False)

    @property
    def anonymous(self) -> bool:
        return not (self.user or self.identity_token or self.registry_token)


def load(path: str, registry: str, repository: str) -> Credentials:
    """The credentials for a repository; anonymous where the file has no entry for it."""
    try:
        config = json.loads(pathlib.Path(path).read_text("utf-8"))
    except OSError as e:
        raise errors.Usage(f"--registry-auth {path} cannot be read: {e.strerror}") from e
    except ValueError as e:
        raise errors.Usage(f"--registry-auth {path} is not JSON: expected a docker config") from e
    auths = config.get("auths", {}) if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(auths, dict):
        raise errors.Usage(
            f'--registry-auth {path} is not a docker config: expected {{"auths": ...}}'
        )
    found = _best(auths, f"{registry}/{repository}")
    if found is not None and any(found.values()):
        return _credentials(found, path, registry)
    if config.get("credsStore") or registry in (config.get("credHelpers") or {}):
        raise errors.Usage(
            f"--registry-auth {path} keeps credentials for {registry} in a helper (credsStore or "
            "credHelpers), which is not here: make the Secret with `kubectl create secret "
            "docker-registry`"
        )
    return Credentials()


def _best(auths: dict[str, typing.Any], wanted: str) -> dict[str, typing.Any] | None:
    """The entry with the longest path that covers the repository, as Kubernetes chooses."""
    wanted = _normal(wanted)
    covering = {
        _normal(key): entry
        for key, entry in auths.items()
        if isinstance(entry, dict) and f"{wanted}/".startswith(f"{_normal(key)}/")
    }
    return covering[max(covering, key=len)] if covering else None


def _normal(key: str) -> str:
    """`https://index.docker.io/v1/` and `docker.io` are one registry."""
    host, slash, path = (
        key.partition("://")[2].partition("/") if "://" in key else key.partition("/")
    )
    path = path.strip("/")
    if path in ("v1", "v2"):
        path = ""
    host = "docker.io" if host.lower() in _DOCKER_HUB else host.lower()
    return f"{host}/{path}" if slash and path else host


def _credentials(entry: dict[str, typing.Any], path: str, registry: str) -> Credentials:
    if token := _text(entry, "identitytoken"):
        return Credentials(identity_token=token)
    if token := _text(entry, "registrytoken"):
        return Credentials(registry_token=token)
    user, password = _text(entry, "username"), _text(entry, "password")
    if user:
        return Credentials(user=user, password=password)
    try:
        decoded = base64.b64decode(_text(entry, "auth"), validate=True).decode()
    except ValueError:
        decoded = ""
    user, separator, password = decoded.partition(":")
    if not separator or not user:
        raise errors.Usage(
            f"--registry-auth {path}: the entry for {registry} holds no usable auth, username or "
            "identitytoken"
        )
    return Credentials(user=user, password=password.rstrip("\0"))


def _text(entry: dict[str, typing.Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
