"""Calls to the hooks: POST JSON, and only a 200 counts."""

from __future__ import annotations

import dataclasses
import email.utils
import time

import requests

from tests.cluster.standin import endpoints, objects
from tests.cluster.standin.endpoints import Endpoint
from tests.cluster.standin.informer import Informers
from tests.cluster.standin.objects import BadController, Obj


class HookFailed(Exception):
    """The hook gave no usable answer: nothing is changed, and the sync is tried again."""


class RetryLater(Exception):
    """The hook answered 429: ask again after so many seconds, without any fuss."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"asked to come back in {seconds:g} s")
        self.seconds = seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hook:
    """Where one hook is, and how long it may take."""

    url: str
    timeout_seconds: float
    endpoint: Endpoint

    def call(self, request: Obj) -> bytes:
        """POST a request; answers the body of a 200, else raises `HookFailed` or `RetryLater`."""
        try:
            with self.endpoint.session() as session:
                answer = session.post(self.url, json=request, timeout=self.timeout_seconds)
        except requests.RequestException as e:
            raise HookFailed(f"{self.url} did not answer: {e}") from e
        if answer.status_code == 429 and "Retry-After" in answer.headers:
            raise RetryLater(retry_after_seconds(answer.headers["Retry-After"], now=time.time()))
        if answer.status_code != 200:
            raise HookFailed(f"{self.url} answered {answer.status_code}: {answer.text[:500]}")
        return answer.content


def from_spec(controller: Obj, name: str, informers: Informers) -> Hook | None:
    """The controller's hook of this name, if it has one; only v2 webhooks by URL are served."""
    spec = (controller["spec"].get("hooks") or {}).get(name)
    if spec is None:
        return None
    webhook = spec.get("webhook") or {}
    if spec.get("version") != "v2" or "url" not in webhook:
        raise BadController(f"hook {name} is {spec!r}: the stand-in serves v2 webhooks by url only")
    timeout = objects.duration_seconds(webhook.get("timeout") or "10s")
    return Hook(
        url=webhook["url"],
        timeout_seconds=timeout,
        endpoint=endpoints.resolve(controller, webhook["url"], informers),
    )


def retry_after_seconds(header: str, *, now: float) -> float:
    """Seconds that a Retry-After header asks for: a number, or a date less ``now`` (epoch)."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now)
    except ValueError as e:
        raise HookFailed(f"Retry-After is {header!r}: expected seconds or an HTTP date") from e
