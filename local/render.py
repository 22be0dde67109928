"""``noctaya render``: the objects that a cluster would first get for some manifests."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hooks import settings
from hooks.api.llmservice import LLMServiceSpec
from hooks.autoscaling import render as autoscaling
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice.names import ServiceName
from hooks.settings import Settings
from local import manifests, metacontroller, prepare, printing, recordings
from local.documents import Document
from local.errors import Usage
from local.manifests import Manifests
from local.metacontroller import World

# Nothing that is rendered depends on when; the time of the last second would be a lie as well.
_NEVER = datetime.datetime.fromtimestamp(0, datetime.UTC)


def run(paths: Sequence[Path], environment: Mapping[str, str]) -> None:
    """Prints the children of each service as YAML documents. Raises Usage.

    ``environment`` may hold the hooks' own settings; our images have a default here.
    """
    chosen = _settings(environment)
    known = manifests.load(paths)
    printing.note(*known.notes)
    rendered = [obj for service in known.services for obj in children(service, known, chosen)]
    printing.say("---\n".join(recordings.to_yaml(obj) for obj in rendered), end="")


def children(service: Document, known: Manifests, chosen: Settings) -> Iterator[Object]:
    """What the hooks apply once nothing but the gateway is awaited. Raises Usage."""
    now = objects.format_time(_NEVER)
    parent = manifests.stored(service, now=now)
    runtimes = [manifests.stored(runtime, now=now) for runtime in known.runtimes]
    world = metacontroller.settle(
        World(parent=parent, runtimes=runtimes), settings=chosen, now=_NEVER
    )
    if not world.children:
        raise Usage(prepare.why_not(service, known, world.parent))
    for child in world.children:
        yield objects.last_applied(child) or {}
    yield autoscaling.scaled_object(
        ServiceName(objects.text(parent, "metadata", "name")),
        objects.text(parent, "metadata", "namespace"),
        LLMServiceSpec.model_validate(parent["spec"]).scaling,
        available_since="",
    )


def _settings(environment: Mapping[str, str]) -> Settings:
    try:
        return settings.from_environment({**recordings.IMAGES, **environment})
    except settings.SettingsError as e:
        raise Usage(str(e)) from e
