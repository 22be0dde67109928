"""The parts of Kubernetes' own Pod API that an InferenceRuntime embeds.

Only what reaches a Pod as it stands. `dump` leaves out zero values, since an API server does not
store them and a child that holds one would be written again at every sync.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from hooks.api.fields import (
    INT64,
    Argument,
    ContainerResource,
    DataKey,
    EnvName,
    Flag,
    HeaderName,
    IntOrText,
    ObjectName,
    PodField,
    Quantity,
    Rule,
    Spec,
    TaintKey,
    TaintValue,
    UrlPath,
    many,
    text,
    whole,
)

_CPU_UNITS = ("1", "1m")
_BYTE_UNITS = ("1", *(f"1{unit}" for unit in ("k", *"MGTPE", *(f"{c}i" for c in "KMGTPE"))))


class KeyRef(Spec):
    """A key of a Secret or ConfigMap in the service's namespace."""

    name: ObjectName = Field(description="Name of the object in the service's namespace.")
    key: DataKey = Field(description="Key within the object.")
    optional: Flag | None = Field(
        None, description="Whether the container may start where the object or the key is missing."
    )


class FieldRef(Spec):
    """A field of the Pod itself."""

    api_version: Literal["v1"] | None = Field(
        None, description="API version that the path is written for; v1 by default."
    )
    field_path: PodField = Field(
        description="Path of the field, for example metadata.name or status.podIP."
    )


class ResourceFieldRef(Spec):
    """A resource request or limit of a container of the Pod."""

    container_name: Annotated[str, text(63)] | None = Field(
        None, description="Container to read from; the engine's own by default."
    )
    resource: ContainerResource = Field(description="Resource to read, for example limits.memory.")
    divisor: Quantity | None = Field(
        None,
        description="Unit that the value is divided by: 1 (the default), 1m for CPU, or one of a"
        " single suffix like 1Mi for all else.",
    )

    @pydantic.field_validator("divisor", mode="before")
    @classmethod
    def _zero_is_none(cls, value: object) -> object:
        """What an API server shows where none was given, and who copies from it writes."""
        return None if value in ("0", 0) else value

    @pydantic.model_validator(mode="after")
    def _divisor_is_a_unit(self) -> "ResourceFieldRef":
        units = _CPU_UNITS if self.resource.endswith(".cpu") else _BYTE_UNITS
        if self.divisor is not None and self.divisor not in units:
            raise ValueError(
                f"divisor of {self.resource} must be one of {', '.join(units)}, found"
                f" {self.divisor}"
            )
        return self


class EnvVarSource(Spec):
    """Where the value of a variable comes from: exactly one source."""

    cel = (
        Rule(
            "[has(self.fieldRef), has(self.resourceFieldRef), has(self.configMapKeyRef),"
            " has(self.secretKeyRef)].filter(x, x).size() == 1",
            "needs exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef",
        ),
    )

    field_ref: FieldRef | None = Field(None, description="A field of the Pod.")
    resource_field_ref: ResourceFieldRef | None = Field(
        None, description="A resource request or limit of a container."
    )
    config_map_key_ref: KeyRef | None = Field(None, description="A key of a ConfigMap.")
    secret_key_ref: KeyRef | None = Field(None, description="A key of a Secret.")

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> "EnvVarSource":
        sources = (
            self.field_ref,
            self.resource_field_ref,
            self.config_map_key_ref,
            self.secret_key_ref,
        )
        if sum(source is not None for source in sources) != 1:
            raise ValueError(self.cel[0].message)
        return self


class EnvVar(Spec):
    """One environment variable of the engine's container."""

    cel = (
        Rule(
            "!(has(self.value) && self.value != '' && has(self.valueFrom))",
            "an environment variable takes either value or valueFrom, not both",
        ),
    )

    name: EnvName = Field(description="Name of the variable.")
    value: Argument | None = Field(
        None,
        description="Literal value. May use .Model.Path, .Service.Name and .Service.Namespace in"
        " double braces; $(OTHER) refers to a variable above.",
    )
    value_from: EnvVarSource | None = Field(
        None, description="Where the value comes from, instead of a literal."
    )

    @pydantic.model_validator(mode="after")
    def _one_value(self) -> "EnvVar":
        if self.value and self.value_from is not None:
            raise ValueError(self.cel[0].message)
        return self


class Toleration(Spec):
    """A node taint that the Pod tolerates."""

    cel = (
        Rule(
            "(has(self.key) && self.key != '')"
            " || (has(self.operator) && self.operator == 'Exists')",
            "a toleration without a key needs operator: Exists",
        ),
        Rule(
            "!has(self.operator) || self.operator != 'Exists'"
            " || !has(self.value) || self.value == ''",
            "a toleration with operator: Exists takes no value",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds needs effect: NoExecute",
        ),
    )

    key: TaintKey | None = Field(
        None, description="Taint key; all keys where it is empty and operator is Exists."
    )
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = Field(
        None, description="How key and value are compared; Equal by default."
    )
    value: TaintValue | None = Field(None, description="Taint value, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Taint effect; all effects where it is left out."
    )
    toleration_seconds: Annotated[int, INT64] | None = Field(
        None, description="How long a NoExecute taint is tolerated; for ever where it is left out."
    )

    @pydantic.model_validator(mode="after")
    def _as_an_api_server_takes_it(self) -> "Toleration":
        exists = self.operator == "Exists"
        broken = (
            not self.key and not exists,
            exists and bool(self.value),
            self.toleration_seconds is not None and self.effect != "NoExecute",
        )
        for rule, is_broken in zip(self.cel, broken, strict=True):
            if is_broken:
                raise ValueError(rule.message)
        return self


class HttpHeader(Spec):
    """A header of a probe's request."""

    name: HeaderName = Field(description="Name of the header.")
    value: Annotated[str, text(4096, least=0)] = Field(description="Value of the header.")


class HttpGet(Spec):
    """A probe that asks by HTTP GET."""

    path: UrlPath | None = Field(None, description="Path to ask for; / by default.")
    port: IntOrText = Field(description="Port number, or the name of the container's port.")
    host: Annotated[str, text(253)] | None = Field(
        None, description="Host to connect to; the Pod's address by default."
    )
    scheme: Literal["HTTP", "HTTPS"] | None = Field(
        None, description="HTTP (the default) or HTTPS."
    )
    http_headers: Annotated[tuple[HttpHeader, ...], many(16, keyed_by="name")] = Field(
        (), description="Headers to send."
    )


class ExecAction(Spec):
    """A probe that runs a command in the container."""

    command: Annotated[tuple[Argument, ...], many(64, least=1)] = Field(
        description="Command and arguments; no shell is involved."
    )


class TcpSocket(Spec):
    """A probe that opens a TCP connection."""

    port: IntOrText = Field(description="Port number, or the name of the container's port.")
    host: Annotated[str, text(253)] | None = Field(
        None, description="Host to connect to; the Pod's address by default."
    )


class GrpcAction(Spec):
    """A probe that calls the gRPC health service."""

    port: Annotated[int, whole(1, 65535)] = Field(description="Port number of the gRPC server.")
    service: Annotated[str, text(253, least=0)] | None = Field(
        None, description="Service name in the health request."
    )


class Probe(Spec):
    """A Kubernetes probe: exactly one action, and its timing."""

    cel = (
        Rule(
            "[has(self.httpGet), has(self.exec), has(self.tcpSocket),"
            " has(self.grpc)].filter(x, x).size() == 1",
            "a probe needs exactly one of httpGet, exec, tcpSocket and grpc",
        ),
    )

    http_get: HttpGet | None = Field(None, description="Ask by HTTP GET; 200 to 399 is success.")
    exec: ExecAction | None = Field(None, description="Run a command; exit code 0 is success.")
    tcp_socket: TcpSocket | None = Field(None, description="Open a TCP connection.")
    grpc: GrpcAction | None = Field(None, description="Call the gRPC health service.")
    initial_delay_seconds: Annotated[int, whole(0)] | None = Field(
        None, description="Seconds between the container's start and the first probe; 0 by default."
    )
    period_seconds: Annotated[int, whole(0)] | None = Field(
        None, description="Seconds between probes; 10 by default."
    )
    timeout_seconds: Annotated[int, whole(0)] | None = Field(
        None, description="Seconds after which a probe has failed; 1 by default."
    )
    success_threshold: Annotated[int, whole(0)] | None = Field(
        None, description="Successes in a row that count as success; 1 by default."
    )
    failure_threshold: Annotated[int, whole(0)] | None = Field(
        None, description="Failures in a row that count as failure; 3 by default."
    )
    termination_grace_period_seconds: Annotated[int, whole(1)] | None = Field(
        None,
        description="Grace period for a container that this probe ends; the Pod's own by default."
        " Not allowed on readiness probes.",
    )

    @pydantic.model_validator(mode="after")
    def _one_action(self) -> "Probe":
        actions = (self.http_get, self.exec, self.tcp_socket, self.grpc)
        if sum(action is not None for action in actions) != 1:
            raise ValueError(self.cel[0].message)
        return self


def dump(value: Spec) -> dict[str, Any]:
    """The value as it stands in a Pod, without what an API server would not store."""
    dumped: dict[str, Any] = _without_zeros(value.model_dump(by_alias=True, mode="json"))
    return dumped


def _without_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_zeros(item)
            for key, item in value.items()
            # A pointer in Kubernetes' API: zero is a value of its own there.
            if key == "tolerationSeconds" or key == "optional" or not _is_zero(item)
            if item is not None
        }
    if isinstance(value, list):
        return [_without_zeros(item) for item in value]
    return value


def _is_zero(value: Any) -> bool:
    return value is None or value == "" or value == 0 or value == []
