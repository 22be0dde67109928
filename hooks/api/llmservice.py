"""LLMService: one model endpoint, its resources, its scaling, its cache and its cold start."""

from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from hooks.api.fields import (
    Argument,
    DataKey,
    Duration,
    Flag,
    ObjectName,
    PositiveDuration,
    Quantity,
    Rule,
    Spec,
    StabilizationDuration,
    Value,
    many,
    text,
    whole,
)
from hooks.k8s import quantity

# KEDA names an HPA `keda-hpa-` + name, and an HPA's name has 63 characters at most.
NAME_MOST = 54
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

NAME_RULES = (
    Rule(
        f"size(self.metadata.name) <= {NAME_MOST}",
        f"metadata.name must have at most {NAME_MOST} characters, since Kubernetes limits the names"
        " that are made from it; choose a shorter one",
    ),
    Rule(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "metadata.name becomes the name of a Service: lower-case letters, digits and dashes only,"
        " a letter first and no dash last",
    ),
)


class LocalReference(Spec):
    """A reference to an object in the namespace of the service."""

    name: ObjectName = Field(description="Name of the object in the service's namespace.")


HUBS = ("hf", "huggingface", "modelscope")

_PART = "[A-Za-z0-9][A-Za-z0-9._-]*"
_REPOSITORY = f"{_PART}/{_PART}(@[A-Za-z0-9][A-Za-z0-9._/-]*)?"

# The hook reads a URI with `hooks.llmservice.sources`, which is as strict and quotes what it found.
URI_RULES = (
    Rule(
        "self.matches('^(hf|huggingface|modelscope|oci|pvc)://')",
        "must begin with hf://, huggingface://, modelscope://, oci:// or pvc://; s3:// is not"
        " supported",
    ),
    Rule(
        "!self.matches('^(hf|huggingface|modelscope)://')"
        f" || self.matches('^[a-z]+://{_REPOSITORY}$')",
        "a hub's repository is written like hf://ORG/NAME or hf://ORG/NAME@REVISION",
    ),
    Rule(
        "!self.startsWith('oci://') || self.matches('^oci://[^@]+/[^@]+@sha256:[0-9a-f]{64}$')",
        "an artifact is pinned by its digest, oci://REGISTRY/REPOSITORY@sha256:DIGEST; tags are"
        " not supported",
    ),
    Rule(
        "!self.startsWith('pvc://')"
        " || self.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/([^/.]|[.][^/.]|[.][.][^/])[^/]*)*/?$')",
        "a claim is written like pvc://CLAIM or pvc://CLAIM/SUBPATH, without empty, . or .. parts",
    ),
)


class Source(Spec):
    """Where the weights come from."""

    uri: Annotated[str, text(1024, rules=URI_RULES)] = Field(
        description="hf://ORG/NAME[@REVISION] (or huggingface://),"
        " modelscope://ORG/NAME[@REVISION], oci://REGISTRY/REPOSITORY@sha256:DIGEST or"
        " pvc://CLAIM[/SUBPATH]. A pvc:// claim is mounted read-only at /models and nothing is"
        " downloaded. A @REVISION of a hub needs a staged cache (cache.prewarm). Tags and s3://"
        " are not supported."
    )
    secret_ref: LocalReference | None = Field(
        None,
        description="Secret of type kubernetes.io/dockerconfigjson for an oci:// registry. Refused"
        " on other sources.",
    )


class Model(Spec):
    """The model: exactly one of source and the reserved catalogRef."""

    cel = (
        Rule(
            "has(self.source) != has(self.catalogRef)",
            "needs exactly one of source and catalogRef",
        ),
    )

    source: Source | None = Field(None, description="Where the weights come from.")
    catalog_ref: Annotated[str, text(253)] | None = Field(
        None,
        description="Reserved for a model catalog. Not implemented: a service that sets it is not"
        " reconciled and its status says so.",
    )

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.source is None) == (self.catalog_ref is None):
            raise ValueError(self.cel[0].message)
        return self


class RuntimeSelector(Spec):
    """Selects a runtime by the vendor of its accelerator."""

    vendor: Annotated[tuple[Literal["nvidia", "ascend"], ...], many(2, least=1)] = Field(
        description="Vendors in order of preference. The first one with a usable InferenceRuntime"
        " is taken, and of its runtimes the one with the highest priority."
    )


class RuntimeChoice(Spec):
    """The InferenceRuntime: exactly one of name and selector."""

    cel = (
        Rule(
            "has(self.name) != has(self.selector)",
            "needs exactly one of name and selector",
        ),
    )

    name: ObjectName | None = Field(None, description="Name of one InferenceRuntime.")
    selector: RuntimeSelector | None = Field(
        None, description="Selects an InferenceRuntime instead of naming one."
    )
    args_override: Annotated[tuple[Argument, ...], many(256)] = Field(
        (),
        description="Arguments appended, as they stand, after the runtime's own arguments.",
    )

    @pydantic.model_validator(mode="after")
    def _one_choice(self) -> "RuntimeChoice":
        if (self.name is None) == (self.selector is None):
            raise ValueError(self.cel[0].message)
        return self


class Resources(Spec):
    """What each backend replica asks for."""

    accelerators: Annotated[int, whole(1, 1024)] = Field(
        1, description="Whole devices per backend replica."
    )
    cpu: Quantity | None = Field(None, description="CPU request per backend replica.")
    memory: Quantity | None = Field(
        None, description="Memory request and limit per backend replica, equal to each other."
    )
    fraction: (
        Annotated[
            dict[str, Any],
            Value({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ]
        | None
    ) = Field(
        None,
        description="Reserved for parts of a device. Not implemented: a service that sets it is not"
        " reconciled and its status says so.",
    )


class AuthenticationReference(Spec):
    """A KEDA authentication object."""

    name: ObjectName = Field(description="Name of the KEDA authentication object.")
    kind: Literal["TriggerAuthentication", "ClusterTriggerAuthentication"] = Field(
        "TriggerAuthentication", description="Scope of the KEDA authentication object."
    )


class ScalerTls(Spec):
    """Mutual TLS between KEDA and the service's scaler, with credentials that exist already."""

    server_secret_name: ObjectName = Field(
        description="Secret with tls.crt, tls.key and the client-verifying ca.crt. The certificate"
        " must be valid for NAME-scaler.NAMESPACE.svc."
    )
    authentication_ref: AuthenticationReference = Field(
        description="KEDA authentication object that supplies caCert, tlsClientCert and"
        " tlsClientKey."
    )


class ExternalScaler(Spec):
    """How KEDA reaches the service's scaler."""

    tls: ScalerTls | None = Field(
        None,
        description="Mutual TLS between KEDA and the scaler; in plain text where it is left out.",
    )


class Scaling(Spec):
    """How many backend replicas there are, and when. KEDA owns the number between min and max."""

    cel = (Rule("self.max >= self.min", "spec.scaling.max must be at least spec.scaling.min"),)

    min: Annotated[int, whole(0)] = Field(
        0, description="Least backend replicas; 0 releases the accelerator when idle."
    )
    max: Annotated[int, whole(1)] = Field(1, description="Most backend replicas; at least min.")
    metric: Literal["queueDepth", "kvCacheUtil"] = Field(
        "queueDepth",
        description="What is scaled on. Only queueDepth is implemented: a service that sets"
        " kvCacheUtil is not reconciled and its status says so.",
    )
    target: Annotated[int, whole(1)] = Field(
        10, description="Requests, waiting and in flight, per backend replica."
    )
    activation_timeout: PositiveDuration = Field(
        Decimal(300),
        description="How long a cold request waits, or in mode reject how long demand is kept.",
        json_schema_extra={"default": "5m"},
    )
    scale_down_stabilization: StabilizationDuration = Field(
        Decimal(300),
        description="How long there must be no demand before replicas are taken away: whole"
        " seconds, 0s to 1h.",
        json_schema_extra={"default": "5m"},
    )
    drain_timeout: Duration = Field(
        Decimal(120),
        description="How long a replica may finish its requests before it ends, where the runtime"
        " sets lifecycle.preStopDrain.",
        json_schema_extra={"default": "2m"},
    )
    external_scaler: ExternalScaler | None = Field(
        None, description="How KEDA reaches the service's scaler."
    )

    @pydantic.model_validator(mode="after")
    def _max_is_at_least_min(self) -> "Scaling":
        if self.max < self.min:
            raise ValueError(f"max must be at least min, found max {self.max} and min {self.min}")
        return self


class Cache(Spec):
    """Where downloaded weights are kept."""

    cel = (
        Rule(
            "!self.prewarm || self.strategy != 'None'",
            "spec.cache.prewarm needs a cache that outlives the Pod; set spec.cache.strategy to"
            " something other than None",
        ),
    )

    strategy: Literal["NodeLocalPVC", "SharedPVC", "HostPath", "None", "BakedImage"] = Field(
        "NodeLocalPVC",
        description="NodeLocalPVC keeps weights on a ReadWriteOnce claim, SharedPVC on a"
        " ReadWriteMany claim, None in the Pod, where every cold start downloads them again. The"
        " claim stays until the service is deleted. HostPath keeps weights in a folder of each"
        " node, where an administrator has allowed it; size and storageClassName mean nothing"
        " there. BakedImage is not implemented: a service that sets it is not reconciled and its"
        " status says so.",
    )
    size: Quantity = Field(
        "50Gi",
        description="Size of the claim. A claim is made once; a later change is refused in the"
        " service's status.",
    )
    storage_class_name: ObjectName | None = Field(
        None,
        description="StorageClass of the claim; the cluster's default where it is left out.",
    )
    prewarm: Flag = Field(
        False,
        description="Has one Job download a hub's weights onto the claim before the first start,"
        " while no accelerator is held. An oci:// source is always staged so. Delete the Job to"
        " have it run again. With strategy HostPath each replica stages on its own node instead,"
        " and holds its accelerator meanwhile.",
    )

    @pydantic.model_validator(mode="after")
    def _prewarm_needs_a_cache(self) -> "Cache":
        if self.prewarm and self.strategy == "None":
            raise ValueError(self.cel[0].message)
        return self


class ResourceAmounts(Spec):
    """CPU and memory."""

    cpu: Quantity | None = Field(None, description="CPU.")
    memory: Quantity | None = Field(None, description="Memory.")


class GatewayResources(Spec):
    """What each gateway replica asks for."""

    requests: ResourceAmounts | None = Field(None, description="Requested by each gateway replica.")
    limits: ResourceAmounts | None = Field(None, description="Limit of each gateway replica.")

    @pydantic.model_validator(mode="after")
    def _requests_within_limits(self) -> "GatewayResources":
        if self.requests is None or self.limits is None:
            return self
        for name in ("cpu", "memory"):
            asked, most = getattr(self.requests, name), getattr(self.limits, name)
            if asked and most and quantity.parse(asked) > quantity.parse(most):
                raise ValueError(f"requests.{name} {asked} is more than limits.{name} {most}")
        return self


class SecretKey(Spec):
    """A key of a Secret in the service's namespace."""

    name: ObjectName = Field(description="Name of the Secret in the service's namespace.")
    key: DataKey = Field(description="Key of the Secret's data.")


class Authentication(Spec):
    """Who may call the endpoint."""

    secret_ref: SecretKey = Field(
        description="Where the accepted Bearer token is. While the Secret or its key is missing"
        " every request is answered 503; a change of it is followed without a restart."
    )


class ColdStart(Spec):
    """What a request meets while no replica is ready."""

    mode: Literal["keepalive", "reject"] = Field(
        "keepalive",
        description="keepalive holds requests, streaming ones with heartbeats; reject answers 503"
        " with Retry-After while the model starts.",
    )
    heartbeat_interval: PositiveDuration = Field(
        Decimal(10),
        description="Time between heartbeats to a held streaming request.",
        json_schema_extra={"default": "10s"},
    )


class Endpoint(Spec):
    """The gateway in front of the backend."""

    open_ai_compatible: Flag = Field(
        True,
        alias="openAICompatible",
        description="Informational: the gateway always serves the OpenAI-compatible API.",
    )
    max_queue: Annotated[int, whole(1)] = Field(
        100,
        description="Most requests, waiting and in flight, per gateway replica; the next one is"
        " answered 429 with Retry-After.",
    )
    resources: GatewayResources | None = Field(
        None, description="CPU and memory of each gateway replica."
    )
    authentication: Authentication | None = Field(
        None,
        description="Asks clients for a Bearer token. Without it the endpoint is open to whoever"
        " reaches it.",
    )
    cold_start: ColdStart = Field(
        ColdStart.model_construct(),
        description="What a request meets while no replica is ready.",
    )


_IS_HUB = "self.model.source.uri.matches('^(hf|huggingface|modelscope)://')"
_IS_OCI = "self.model.source.uri.startsWith('oci://')"
_IS_CLAIM = "self.model.source.uri.startsWith('pvc://')"
_IS_STAGED = "(has(self.cache) && self.cache.prewarm)"

SECRET_NEEDS_OCI = Rule(
    f"!has(self.model.source) || !has(self.model.source.secretRef) || {_IS_OCI}",
    "spec.model.source.secretRef is for oci:// sources only; remove it",
)
OCI_NEEDS_CACHE = Rule(
    f"!has(self.model.source) || !{_IS_OCI} || !has(self.cache) || self.cache.strategy != 'None'",
    "an oci:// source is staged on a cache; set spec.cache.strategy to something other than None",
)
CLAIM_IS_NOT_STAGED = Rule(
    f"!has(self.model.source) || !{_IS_CLAIM} || !{_IS_STAGED}",
    "a pvc:// source holds its weights already; remove spec.cache.prewarm",
)
REVISION_NEEDS_STAGING = Rule(
    f"!has(self.model.source) || !{_IS_HUB} || !self.model.source.uri.contains('@')"
    f" || {_IS_STAGED}",
    "a source with a @REVISION needs a staged cache; set spec.cache.prewarm or leave the revision"
    " out",
)


class LLMServiceSpec(Spec):
    """A model endpoint that releases its accelerator when nobody calls."""

    cel = (SECRET_NEEDS_OCI, OCI_NEEDS_CACHE, CLAIM_IS_NOT_STAGED, REVISION_NEEDS_STAGING)

    model: Model = Field(description="The model to serve.")
    runtime: RuntimeChoice = Field(description="The InferenceRuntime that serves it.")
    resources: Resources = Field(
        Resources.model_construct(), description="What each backend replica asks for."
    )
    scaling: Scaling = Field(
        Scaling.model_construct(), description="How many backend replicas there are, and when."
    )
    cache: Cache = Field(Cache.model_construct(), description="Where downloaded weights are kept.")
    endpoint: Endpoint = Field(
        Endpoint.model_construct(), description="The gateway in front of the backend."
    )
    image_pull_secrets: Annotated[tuple[LocalReference, ...], many(16, keyed_by="name")] = Field(
        (), description="Pull secrets of every Pod of the service."
    )

    @pydantic.model_validator(mode="after")
    def _source_and_cache_fit(self) -> "LLMServiceSpec":
        source = self.model.source
        if source is None:
            return self
        scheme, _, rest = source.uri.partition("://")
        broken = {
            SECRET_NEEDS_OCI: source.secret_ref is not None and scheme != "oci",
            OCI_NEEDS_CACHE: scheme == "oci" and self.cache.strategy == "None",
            CLAIM_IS_NOT_STAGED: scheme == "pvc" and self.cache.prewarm,
            REVISION_NEEDS_STAGING: scheme in HUBS and "@" in rest and not self.cache.prewarm,
        }
        for rule, is_broken in broken.items():
            if is_broken:
                raise ValueError(rule.message)
        return self


PHASES = ("Pending", "Loading", "Ready", "ScaledToZero", "Degraded")
