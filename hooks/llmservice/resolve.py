"""From an LLMService and what is known of runtimes to a `Plan`, or to why there is none."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from hooks import wire
from hooks.api import parse
from hooks.api.llmservice import NAME_MOST, NAME_PATTERN, NAME_RULES, LLMServiceSpec
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import (
    annotations,
    arguments,
    engine,
    environment,
    gateways,
    names,
    plan,
    runtimes,
    sources,
    weights,
)
from hooks.llmservice.names import ServiceName
from hooks.llmservice.plan import Plan, Unresolved
from hooks.llmservice.reasons import Reason
from hooks.settings import Settings

T = TypeVar("T")


class _Mistake(Exception):
    """Carries a user's mistake up to where it is answered; nothing outside sees it."""

    def __init__(self, unresolved: Unresolved) -> None:
        super().__init__(unresolved.message)
        self.unresolved = unresolved


def resolve(request: wire.CompositeRequest, settings: Settings) -> Plan | Unresolved:
    """The plan for the request's parent."""
    try:
        return _resolve(request, settings)
    except _Mistake as mistake:
        return mistake.unresolved


def read_spec(parent: Object) -> LLMServiceSpec | Unresolved:
    """The parent's name and spec, as far as they can be judged without the rest of the world."""
    name = objects.text(parent, "metadata", "name")
    if len(name) > NAME_MOST:
        return Unresolved(reason=Reason.NAME_INVALID, message=NAME_RULES[0].message)
    if not re.fullmatch(NAME_PATTERN, name):
        return Unresolved(reason=Reason.NAME_INVALID, message=NAME_RULES[1].message)
    mistakes = [*annotations.sentences(parent, "LLMService"), *gateways.check(parent)]
    try:
        spec = parse.read(LLMServiceSpec, objects.dig(parent, "spec"), path="spec")
    except parse.Invalid as invalid:
        return _invalid([*mistakes, *invalid.problems])
    mistakes += _beyond_the_schema(spec)
    if mistakes:
        return _invalid(mistakes)
    fields = _not_implemented(spec)
    if fields:
        listed = ", ".join(fields)
        return Unresolved(
            reason=Reason.NOT_IMPLEMENTED,
            message=f"not implemented in this version, so remove it: {listed}",
        )
    return spec


def _beyond_the_schema(spec: LLMServiceSpec) -> Iterator[str]:
    if spec.model.source is not None:
        try:
            sources.parse(spec.model.source.uri)
        except sources.SourceError as error:
            yield f"spec.model.source.uri: {error}"
    try:
        gateways.check_spec(spec)
    except gateways.GatewayError as error:
        yield str(error)


def _invalid(mistakes: list[str]) -> Unresolved:
    return Unresolved(reason=Reason.SPEC_INVALID, message="; ".join(mistakes))


def _resolve(request: wire.CompositeRequest, settings: Settings) -> Plan:
    spec = _expect(read_spec(request.parent))
    source = _source(spec)
    runtime = _runtime(spec, request)
    service = ServiceName(objects.text(request.parent, "metadata", "name"))
    namespace = objects.text(request.parent, "metadata", "namespace")
    texts = (_model_path(source, spec, settings), service, namespace)
    values = dict(zip(arguments.TEMPLATES, texts, strict=True))
    cache = _cache(spec, service, namespace, settings)
    place = environment.Place(
        source=source,
        staged=weights.are_staged(spec),
        writable=_writable(cache, spec),
        paths=settings.paths,
    )
    container = engine.plan_engine(runtime, spec, values, place)
    return Plan(
        service=service,
        namespace=namespace,
        runtime=runtime.name,
        spec=spec,
        source=source,
        cache=cache,
        staging=_staging(source, spec, runtime, values, settings),
        engine=container,
        gateway=gateways.plan_gateway(
            request.parent, spec, settings, runtime=runtime, engine=container
        ),
        settings=settings,
    )


def _expect(outcome: T | Unresolved) -> T:
    if isinstance(outcome, Unresolved):
        raise _Mistake(outcome)
    return outcome


def _mistake(reason: Reason, message: str) -> _Mistake:
    return _Mistake(Unresolved(reason=reason, message=message))


def _not_implemented(spec: LLMServiceSpec) -> list[str]:
    """The paths of fields that the spec sets and that nothing acts on yet."""
    set_fields = {
        "spec.model.catalogRef": spec.model.catalog_ref is not None,
        "spec.resources.fraction": spec.resources.fraction is not None,
        "spec.scaling.metric: kvCacheUtil": spec.scaling.metric == "kvCacheUtil",
        "spec.cache.strategy: BakedImage": spec.cache.strategy == "BakedImage",
    }
    return [path for path, is_set in set_fields.items() if is_set]


def _source(spec: LLMServiceSpec) -> sources.Source:
    """Raises SourceError."""
    assert spec.model.source is not None  # The model has a source or the refused catalogRef.
    return sources.parse(spec.model.source.uri)


def _runtime(spec: LLMServiceSpec, request: wire.CompositeRequest) -> runtimes.Runtime:
    known = {
        objects.text(obj, "metadata", "name"): obj
        for obj in request.related.get(names.RUNTIMES, {}).values()
    }
    runtime = _expect(runtimes.choose(spec.runtime, known))
    used = objects.text(request.parent, "status", "resolvedRuntime")
    # An edit is a new choice, and so is the service's first look at any runtime.
    if not used or spec.runtime.name is not None or _is_edited(request.parent):
        return runtime
    return _expect(runtimes.not_lost(runtime, used, known))


def _is_edited(parent: Object) -> bool:
    seen = objects.number(parent, "status", "observedGeneration")
    return seen != objects.number(parent, "metadata", "generation")


def _model_path(source: sources.Source, spec: LLMServiceSpec, settings: Settings) -> str:
    """What the engine calls its model: a hub's name for it, or the folder that it is in.

    The folders are those that the fetcher makes; see `fetcher.layout`.
    """
    cache = settings.paths.cache
    match source:
        case sources.Hub(repository=repository):
            return repository
        case sources.ModelScope(repository=repository, revision=revision):
            if not weights.are_staged(spec):
                return repository
            folder = repository.replace("/", "--")
            return f"{cache}/modelscope/{folder}/{(revision or 'master').replace('/', '%2F')}"
        case sources.Oci(digest=digest):
            return f"{cache}/oci/{digest.replace(':', '-')}"
        case sources.Claim():
            return settings.paths.models


def _staging(
    source: sources.Source,
    spec: LLMServiceSpec,
    runtime: runtimes.Runtime,
    values: Mapping[str, str],
    settings: Settings,
) -> plan.Staging | plan.StagingOnNode | plan.NoStaging:
    if isinstance(source, sources.Claim) or not weights.are_staged(spec):
        return plan.NoStaging()
    if not settings.fetcher_image:
        raise _mistake(Reason.FETCHER_MISSING, Reason.FETCHER_MISSING.help)
    assert spec.model.source is not None
    secret = spec.model.source.secret_ref
    kind = plan.Staging if weights.are_awaited(spec) else plan.StagingOnNode
    return kind(
        uri=sources.uri(source),
        image=settings.fetcher_image,
        pull_policy=settings.image_pull_policy,
        env=environment.of_download(runtime.spec.container.env, values, source),
        registry_secret="" if secret is None else secret.name,
    )


def _cache(
    spec: LLMServiceSpec, service: ServiceName, namespace: str, settings: Settings
) -> plan.CacheClaim | plan.CacheInPod | plan.CacheOnNode:
    if spec.cache.strategy == "None":
        return plan.CacheInPod()
    if spec.cache.strategy == "HostPath":
        if not settings.host_path_root:
            raise _mistake(Reason.HOST_PATH_DISABLED, Reason.HOST_PATH_DISABLED.help)
        folder = names.node_folder(settings.host_path_root, namespace, service)
        return plan.CacheOnNode(folder=folder)
    shared = spec.cache.strategy == "SharedPVC"
    return plan.CacheClaim(
        access_mode="ReadWriteMany" if shared else "ReadWriteOnce",
        size=spec.cache.size,
        storage_class=spec.cache.storage_class_name or "",
        read_only=shared and weights.are_awaited(spec),
    )


def _writable(
    cache: plan.CacheClaim | plan.CacheInPod | plan.CacheOnNode, spec: LLMServiceSpec
) -> environment.Writable:
    if isinstance(cache, plan.CacheClaim) and cache.read_only:
        return environment.Writable.NOTHING
    if isinstance(cache, plan.CacheOnNode) and weights.are_staged(spec):
        return environment.Writable.CACHES_ONLY
    return environment.Writable.ALL
