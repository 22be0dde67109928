"""Endpoint configurations: whom to trust and which token to show, by a hook's host.

As in Metacontroller they are resolved when a controller is started and not again, and Secrets come
from a cache of all of them; secretRef is the only source served here.
"""

from __future__ import annotations

import base64
import dataclasses
import ssl
import urllib.parse
from typing import Any

import requests
import requests.adapters

from tests.cluster.standin.informer import Informers
from tests.cluster.standin.objects import BadController, Key, Obj


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What the calls to one host carry."""

    authority: str = ""
    """Certificates in PEM; empty for those of the machine."""
    authorization: str = ""
    """The header's value; empty for none."""

    def session(self) -> requests.Session:
        session = requests.Session()
        # Proxies of the machine do not lead to the cluster's Services.
        session.trust_env = False
        if self.authority:
            session.mount("https://", _Trusting(self.authority))
        if self.authorization:
            session.headers["Authorization"] = self.authorization
        return session


class _Trusting(requests.adapters.HTTPAdapter):
    def __init__(self, authority: str) -> None:
        self._context = ssl.create_default_context(cadata=authority)
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)


def resolve(controller: Obj, url: str, informers: Informers) -> Endpoint:
    """The endpoint of ``url`` as the controller's spec configures it."""
    host = urllib.parse.urlsplit(url).netloc
    for config in controller["spec"].get("endpointConfigs") or []:
        if config["host"] == host:
            return Endpoint(
                authority=_secret(config["caBundle"], informers),
                authorization=f"Bearer {_secret(config['authorization'], informers).strip()}",
            )
    return Endpoint()


def _secret(source: Obj, informers: Informers) -> str:
    reference = source["secretRef"]
    key = Key(reference["namespace"], reference["name"])
    found = informers.get("v1", "secrets").get(key)
    if found is None or reference["key"] not in found["data"]:
        raise BadController(f"there is no key {reference['key']} in the Secret {key}")
    return base64.b64decode(found["data"][reference["key"]]).decode()
