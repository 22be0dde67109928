"""Answers a registry's challenges: Basic, and Bearer tokens that are fetched and grow old.

A token is asked for again on every 401, since registries hand out tokens that live for minutes
while one layer takes longer.
"""

import dataclasses
import json
import re
import threading
import urllib.parse

from fetcher import errors, transport, uris
from fetcher.sources import dockerconfig, replies

_SCHEME = re.compile(r"[\s,]*([A-Za-z][A-Za-z0-9_-]*)(?:\s+|\s*,|$)")
_PARAMETER = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*(?:,|$)')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Challenge:
    """One way in that a 401 offers. `scheme` is in lower case."""

    scheme: str
    parameters: dict[str, str]


def parse(header: str) -> list[Challenge]:
    """Read WWW-Authenticate, which may hold several challenges in one line."""
    found: list[Challenge] = []
    position = 0
    while position < len(header):
        if match := _PARAMETER.match(header, position):
            if found:
                quoted = re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
                found[-1].parameters[match[1].lower()] = quoted
        elif match := _SCHEME.match(header, position):
            found.append(Challenge(scheme=match[1].lower(), parameters={}))
        else:
            break
        position = match.end()
    return found


class Keys:
    """The Authorization header for one repository; shared between threads."""

    def __init__(
        self,
        client: transport.Client,
        credentials: dockerconfig.Credentials,
        *,
        registry: str,
        repository: str,
        scheme: str,
    ) -> None:
        self._client = client
        self._credentials = credentials
        self._registry = registry
        self._repository = repository
        self._scheme = scheme
        self._lock = threading.Lock()
        self._header: str | None = None

    def header(self) -> str | None:
        """What to send now; None before the registry asked for anything."""
        with self._lock:
            return self._header

    def renew(self, refused: str | None, challenges: list[Challenge]) -> str | None:
        """A header to send instead of the refused one; None if there is nothing else to try.

        Threads that were refused together renew once.
        """
        with self._lock:
            if self._header != refused:
                return self._header
            for challenge in challenges:
                if (header := self._answer(challenge)) is not None:
                    self._header = header
                    return header if challenge.scheme == "bearer" or header != refused else None
            return None

    def denied(self, status: int, what: str) -> errors.Unauthorized:
        """The words for a refusal that nothing here can lift."""
        if self._credentials.anonymous:
            advice = "no credentials were given: name a dockerconfigjson Secret in secretRef"
        else:
            advice = "the credentials were not enough: check the Secret that secretRef names"
        return errors.Unauthorized(f"{what} is refused by {self._registry} ({status}); {advice}")

    def _answer(self, challenge: Challenge) -> str | None:
        if challenge.scheme == "bearer":
            if self._credentials.registry_token:
                return f"Bearer {self._credentials.registry_token}"
            return f"Bearer {self._token(challenge.parameters)}"
        if challenge.scheme == "basic" and self._credentials.user:
            return transport.basic(self._credentials.user, self._credentials.password)
        return None

    def _token(self, parameters: dict[str, str]) -> str:
        realm = parameters.get("realm", "")
        if self._scheme == "https" and not realm.startswith("https://"):
            raise errors.BadRemote(
                f"{self._registry} wants credentials sent to {uris.without_secrets(realm)!r} "
                "without TLS: refused"
            )
        scope = parameters.get("scope") or f"repository:{self._repository}:pull"
        asked = {"scope": scope}
        if service := parameters.get("service"):
            asked["service"] = service
        what = f"a token for {self._repository}"
        with self._ask(realm, asked) as answer:
            if answer.status in (400, 401, 403):
                raise self.denied(answer.status, what)
            replies.raise_if_transient(answer)
            if answer.status != 200:
                raise replies.unexpected(answer, what)
            found = replies.load_json(answer, "a token")
        token = (
            (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
        )
        if not isinstance(token, str):
            raise errors.BadRemote(f"{uris.without_secrets(realm)} answers without a token")
        return replies.checked_secret(token, uris.without_secrets(realm))

    def _ask(self, realm: str, asked: dict[str, str]) -> transport.Answer:
        """Credentials are never redirected: the realm is the only place that may see them."""
        if self._credentials.identity_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": self._credentials.identity_token,
                "client_id": "noctaya-fetch",
                **asked,
            }
            return self._client.open(realm, form=form, follow=False)
        query = urllib.parse.urlencode(asked)
        url = f"{realm}{'&' if '?' in realm else '?'}{query}"
        secrets: dict[str, str] = {}
        if self._credentials.user:
            basic = transport.basic(self._credentials.user, self._credentials.password)
            secrets = {"Authorization": basic}
        return self._client.open(url, secrets=secrets, follow=False)


def problem(body: bytes) -> str:
    """The registry's own words for an error, if it has any; fit for one line."""
    try:
        first = json.loads(body)["errors"][0]
        return ascii(f"{first.get('code')}: {first.get('message')}")[:200]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "no reason given"
