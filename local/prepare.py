"""Before anything is started: the first sync, and everything it takes to run what it rendered."""

import dataclasses
import datetime
import shutil
from collections.abc import Iterator, Mapping, Sequence

from hooks.api import llmservice, runtime
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import names
from hooks.llmservice.reasons import Reason
from hooks.settings import Settings
from local import command, drain, kubelet, manifests, metacontroller, plan, secrets
from local.documents import Document
from local.errors import Failure, Usage
from local.metacontroller import World

_COMMAND_FIELD = f"metadata.annotations.{names.LOCAL_COMMAND}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key of a Secret. It is never printed."""

    value: bytes | None = dataclasses.field(repr=False)
    """None: no Secret among the manifests has it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """One LLMService that can run on this machine."""

    document: Document
    runtime: Document
    world: World
    backend: str
    """Name of its Deployment, and of its Service."""
    gateway: str
    port_name: str
    words: Sequence[str]
    """The local command, before variables are expanded."""
    engine_probe: kubelet.Probe
    gateway_probe: kubelet.Probe
    drain: drain.Drain
    holds_device: bool
    served_model: str | None
    api_key: ApiKey | None
    """What clients must send; None: nothing."""
    notes: Sequence[str]
    """What is not as on a cluster, in words."""

    @property
    def key(self) -> str:
        return manifests.key(self.document)

    @property
    def command_place(self) -> str:
        return str(self.runtime.place(_COMMAND_FIELD))


def prepare(
    document: Document,
    known: manifests.Manifests,
    *,
    settings: Settings,
    environ: Mapping[str, str],
    now: datetime.datetime,
) -> Prepared:
    """Raises Usage where the manifests do not say enough, Failure where this machine lacks it."""
    created = objects.format_time(now)
    world = metacontroller.settle(
        World(
            parent=_on_one_machine(manifests.stored(document, now=created)),
            runtimes=[manifests.stored(found, now=created) for found in known.runtimes],
        ),
        settings=settings,
        now=now,
    )
    service = names.ServiceName(objects.text(world.parent, "metadata", "name"))
    backend = world.deployment(names.backend(service))
    gateway = world.deployment(names.gateway(service))
    if backend is None or gateway is None:
        unstaged = _unstaged(document, world.parent, settings)
        raise Usage(unstaged or why_not(document, known, world.parent))
    found = _runtime(world.parent, known)
    spec = llmservice.LLMServiceSpec.model_validate(world.parent["spec"])
    api_key = _api_key(document, spec, known)
    return Prepared(
        document=document,
        runtime=found,
        world=world,
        backend=names.backend(service),
        gateway=names.gateway(service),
        port_name=objects.text(plan.container(backend)["ports"][0], "name"),
        words=_words(found, environ),
        engine_probe=_probe(backend, found.place("spec.health.readiness")),
        gateway_probe=_probe(gateway, document.place()),
        drain=plan.drained(
            spec,
            runtime.InferenceRuntimeSpec.model_validate(objects.without_nulls(found.value)["spec"]),
        ),
        holds_device=plan.holds_device(backend),
        served_model=plan.served_model(gateway),
        api_key=api_key,
        notes=list(_notes(document, api_key)),
    )


def _on_one_machine(parent: Object) -> Object:
    """One gateway is enough, and has the port to itself; who reaches its scaler is here as well."""
    metadata = objects.mapping(parent, "metadata")
    annotations = dict(objects.mapping(metadata, "annotations"))
    annotations.pop(names.GATEWAY_REPLICAS, None)
    spec = dict(objects.mapping(parent, "spec"))
    if "scaling" in spec:
        spec["scaling"] = {k: v for k, v in spec["scaling"].items() if k != "externalScaler"}
    return {**parent, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _unstaged(document: Document, parent: Object, settings: Settings) -> str | None:
    """What to do where nothing was rendered because no Job can stage weights here, or None."""
    if objects.condition(parent, "Ready").get("reason") != Reason.FETCHER_MISSING:
        return None
    source = objects.text(parent, "spec", "model", "source", "uri")
    stage = f"noctaya-fetch stage {source} --cache {settings.paths.cache}"
    prewarm = "spec.cache.prewarm"
    if source.startswith("oci://"):
        place = document.place("spec.model.source.uri")
        advice = (
            f"run `{stage}` yourself, name the folder that it prints in the runtime's "
            f"{names.LOCAL_COMMAND}, and give an hf:// source for this machine"
        )
    elif source.startswith(("hf://", "huggingface://")) and "@" not in source:
        place = document.place(prewarm)
        advice = f"run `{stage}/huggingface` yourself, and take {prewarm} away for this machine"
    else:
        place = document.place(prewarm)
        advice = (
            f"take {prewarm} and any @REVISION away for this machine, and the engine downloads "
            "its weights itself"
        )
    return f"{place}: `noctaya up` stages no weights: {advice}"


def why_not(document: Document, known: manifests.Manifests, parent: Object) -> str:
    """Why nothing was rendered, in the words of the service's own status."""
    ready = objects.condition(parent, "Ready")
    message = objects.text(ready, "message") or objects.text(ready, "reason")
    for found in known.runtimes:
        about = f"{manifests.RUNTIME} {manifests.key(found)}: "
        if message.startswith(about):
            return manifests.placed(found, message.removeprefix(about))
    return manifests.placed(document, message)


def _api_key(
    document: Document, spec: llmservice.LLMServiceSpec, known: manifests.Manifests
) -> ApiKey | None:
    if spec.endpoint.authentication is None:
        return None
    wanted = spec.endpoint.authentication.secret_ref
    namespace = manifests.key(document).partition("/")[0]
    for secret in known.secrets:
        if manifests.key(secret) == f"{namespace}/{wanted.name}":
            return ApiKey(value=secrets.value(secret, wanted.key))
    return ApiKey(value=None)


def _notes(document: Document, api_key: ApiKey | None) -> Iterator[str]:
    if api_key is not None and api_key.value is None:
        yield (
            f"{document.place('spec.endpoint.authentication.secretRef')}: no Secret of the"
            " manifests has this key, so every request is answered 503, as on a cluster"
        )
    for path, words in {
        f"metadata.annotations.{names.GATEWAY_REPLICAS}": "one gateway runs here",
        "spec.scaling.externalScaler.tls": "the scaler is asked in plain text here",
    }.items():
        if path in document.lines:
            yield f"{document.place(path)}: {words}, whatever this says"


def _runtime(parent: Object, known: manifests.Manifests) -> Document:
    resolved = objects.text(parent, "status", "resolvedRuntime")
    return next(document for document in known.runtimes if manifests.key(document) == resolved)


def _words(found: Document, environ: Mapping[str, str]) -> list[str]:
    text = objects.annotation(found.value, names.LOCAL_COMMAND)
    if text is None:
        place = found.place("metadata.annotations")
        raise Usage(
            f"{place}: nothing says how to start this engine on this machine: add "
            f"""{names.LOCAL_COMMAND}: '["program", "argument"]'"""
        )
    place = found.place(_COMMAND_FIELD)
    try:
        words = command.parse(text)
    except ValueError as e:
        raise Usage(f"{place}: {e}") from e
    if shutil.which(words[0], path=environ["PATH"]) is None:
        raise Failure(f"{place}: no program {words[0]!r} on this machine's PATH")
    return words


def _probe(deployment: Object, place: object) -> kubelet.Probe:
    found = plan.probe(deployment)
    if found is None:
        raise Usage(f"{place}: only an httpGet can be asked on this machine")
    return found
