"""Environments: what an engine needs to find and keep things, and what a download needs."""

import dataclasses
import enum
from collections.abc import Mapping

from hooks.api.pods import EnvVar, dump
from hooks.k8s.objects import Object
from hooks.llmservice import arguments
from hooks.llmservice.sources import Hub, ModelScope, Source
from hooks.settings import Paths

# A hub's token is handed to downloads from that hub only.
_OF_HUGGING_FACE = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT")
_OF_MODELSCOPE = ("MODELSCOPE_API_TOKEN", "MODELSCOPE_ENDPOINT")
_OF_THE_NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

# Each leads the hub's client past HF_HOME, where staged weights are.
_ELSEWHERE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")


class Writable(enum.Enum):
    """What of the cache an engine may write to, whatever user its image runs as."""

    ALL = enum.auto()
    CACHES_ONLY = enum.auto()  # Folders that the fetcher opens beside the weights.
    NOTHING = enum.auto()


# Compile caches and the like, in folders of the cache.
OPEN_FOLDERS = ("vllm", "xdg")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where an engine's weights come from and what it may write to."""

    source: Source
    staged: bool
    writable: Writable
    paths: Paths


def of_engine(
    declared: tuple[EnvVar, ...], values: Mapping[str, str], place: Place
) -> tuple[Object, ...]:
    """Writable places for everything that an engine keeps, then what the runtime declares.

    What the runtime declares wins, except where it would lead away from staged weights. A user id
    without a home directory makes vLLM fail after most of a minute; a kept compile cache halves its
    warm start. Raises TemplateError.
    """
    own, binding = _kept(place), _of_staged_hub(place)
    ignored = {*binding, *(_ELSEWHERE if binding else ())}
    taken = [variable for variable in declared if variable.name not in ignored]
    names_declared = {variable.name for variable in taken}
    given = own | binding
    return (
        *({"name": k, "value": given[k]} for k in sorted(given) if k not in names_declared),
        *(_variable(variable, values) for variable in taken),
    )


def of_download(
    declared: tuple[EnvVar, ...], values: Mapping[str, str], source: Source
) -> tuple[Object, ...]:
    """What of the runtime's environment a download from ``source`` needs. Raises TemplateError."""
    wanted = {*_OF_THE_NETWORK}
    if isinstance(source, Hub):
        wanted |= {*_OF_HUGGING_FACE}
    if isinstance(source, ModelScope):
        wanted |= {*_OF_MODELSCOPE}
    return tuple(_variable(variable, values) for variable in declared if variable.name in wanted)


def _kept(place: Place) -> dict[str, str]:
    cache, scratch = place.paths.cache, place.paths.scratch
    compiled = scratch if place.writable is Writable.NOTHING else cache
    own = {
        "HF_HOME": f"{cache if place.writable is Writable.ALL else scratch}/huggingface",
        "HOME": scratch,
        "VLLM_CACHE_ROOT": f"{compiled}/vllm",
        "XDG_CACHE_HOME": f"{compiled}/xdg",
    }
    if isinstance(place.source, ModelScope):
        # The client makes lock files even where it downloads nothing. Staged weights are given by
        # their path, for which vLLM needs no client.
        own["MODELSCOPE_CACHE"] = f"{scratch if place.staged else cache}/modelscope-hub"
        if not place.staged:
            own["VLLM_USE_MODELSCOPE"] = "True"
    if isinstance(place.source, Hub) and place.writable is not Writable.ALL:
        own["HF_MODULES_CACHE"] = f"{scratch}/huggingface-modules"
    return own


def _of_staged_hub(place: Place) -> dict[str, str]:
    """What makes the hub's client find ``ORG/NAME`` where the fetcher put it, and ask nobody."""
    if not place.staged or not isinstance(place.source, Hub):
        return {}
    return {"HF_HOME": place.paths.cache, "HF_HUB_OFFLINE": "1"}


def _variable(variable: EnvVar, values: Mapping[str, str]) -> Object:
    dumped = dump(variable)
    if "value" in dumped:
        dumped["value"] = arguments.fill(dumped["value"], values)
    return dumped
