"""InferenceRuntime: a reusable serving image and how it meets accelerators, probes and shutdown."""

from typing import Annotated, Literal

import pydantic
from pydantic import Field

from hooks.api.fields import (
    INT32,
    Argument,
    Flag,
    ImageName,
    IntOrText,
    LabelMap,
    MetricName,
    MetricsPath,
    ObjectName,
    PortName,
    ResourceName,
    Rule,
    Spec,
    many,
    whole,
)
from hooks.api.pods import EnvVar, Probe, Toleration


class Port(Spec):
    """The port that serves the API."""

    name: PortName = Field("http", description="Port name that Services and probes use.")
    container_port: Annotated[int, whole(1, 65535)] = Field(
        8000, description="Port number of the OpenAI-compatible API."
    )


class Container(Spec):
    """The engine's container."""

    image: ImageName = Field(
        description="Image of an engine that exposes an OpenAI-compatible API."
    )
    args: Annotated[tuple[Argument, ...], many(256)] = Field(
        (),
        description="Arguments. May use .Model.Path, .Service.Name and .Service.Namespace in double"
        " braces; any other double braces are an error.",
    )
    env: Annotated[tuple[EnvVar, ...], many(256, keyed_by="name")] = Field(
        (), description="Environment of the container; literal values take the same templates."
    )
    port: Port = Field(description="The port that serves the API.")


class Sharing(Spec):
    """Whether devices can be shared."""

    supported: Flag = Field(
        False,
        description="Reserved for parts of a device. Not implemented: services of a runtime that"
        " sets it are not reconciled and their status says so.",
    )


class Scheduler(Spec):
    """The scheduler of the backend Pods."""

    cel = (
        Rule(
            "!has(self.queue) || (has(self.name) && self.name == 'volcano')",
            "spec.accelerator.scheduler.queue needs scheduler.name: volcano",
        ),
    )

    name: ObjectName | None = Field(
        None, description="schedulerName of backend Pods; the cluster's default where left out."
    )
    queue: ObjectName | None = Field(
        None, description="Volcano queue of backend Pods; needs name: volcano."
    )

    @pydantic.model_validator(mode="after")
    def _queue_needs_volcano(self) -> "Scheduler":
        if self.queue is not None and self.name != "volcano":
            raise ValueError(self.cel[0].message)
        return self


class Accelerator(Spec):
    """The device that the engine runs on, and where it is found."""

    resource_name: ResourceName = Field(
        description="Resource of the device plugin, for example nvidia.com/gpu."
    )
    sharing: Sharing = Field(Sharing.model_construct(), description="Whether devices are shared.")
    node_selector: LabelMap = Field({}, description="nodeSelector of backend and prewarm Pods.")
    tolerations: Annotated[tuple[Toleration, ...], many(64)] = Field(
        (), description="Tolerations of backend and prewarm Pods."
    )
    scheduler: Scheduler = Field(
        Scheduler.model_construct(), description="The scheduler of the backend Pods."
    )


class Health(Spec):
    """When a replica is ready, started and alive."""

    cel = (
        Rule(
            "[has(self.startup) && has(self.startup.successThreshold)"
            " && self.startup.successThreshold > 1,"
            " has(self.liveness) && has(self.liveness.successThreshold)"
            " && self.liveness.successThreshold > 1].all(x, !x)",
            "successThreshold must be 1 on startup and liveness probes",
        ),
        Rule(
            "!has(self.readiness) || !has(self.readiness.terminationGracePeriodSeconds)",
            "terminationGracePeriodSeconds is not for readiness probes",
        ),
    )

    readiness: Probe | None = Field(
        None,
        description="Gates traffic until the model is loaded; HTTP GET /health where left out.",
    )
    startup: Probe | None = Field(
        None,
        description="Bounds the start; GET /health every 10 seconds, 60 times, where left out.",
    )
    liveness: Probe | None = Field(
        None, description="Restarts a replica that fails after its start; none where left out."
    )

    @pydantic.model_validator(mode="after")
    def _as_an_api_server_takes_it(self) -> "Health":
        once = (self.startup, self.liveness)
        if any(probe is not None and (probe.success_threshold or 1) > 1 for probe in once):
            raise ValueError(self.cel[0].message)
        if self.readiness is not None and self.readiness.termination_grace_period_seconds:
            raise ValueError(self.cel[1].message)
        return self


class Lifecycle(Spec):
    """How a replica ends."""

    termination_grace_period_seconds: Annotated[int, whole(1)] | None = Field(
        None,
        description="Shutdown budget of a Pod; at least the service's drainTimeout plus 10 seconds"
        " where preStopDrain is set.",
    )
    pre_stop_drain: Flag = Field(
        False,
        description="Holds an ending replica for the service's drainTimeout, or until the engine's"
        " metrics show no request for 10 seconds. Needs /bin/sh in the image where metrics are"
        " named.",
    )


class Metrics(Spec):
    """The engine's own metrics: for scraping and for the early end of a drain, not for scaling."""

    path: MetricsPath = Field("/metrics", description="Path of the metrics.")
    port: IntOrText = Field("http", description="Name of the container's port, or a port number.")
    queue_depth: MetricName = Field(description="Name of the metric of waiting requests.")
    kv_cache_util: MetricName | None = Field(
        None, description="Name of the metric of key-value cache use."
    )
    running: MetricName | None = Field(None, description="Name of the metric of running requests.")
    ttft: MetricName | None = Field(
        None, description="Name of the metric of the time to the first token."
    )


class InferenceRuntimeSpec(Spec):
    """A serving image and how it meets accelerators, probes and shutdown."""

    family: Literal["vllm"] = Field("vllm", description="Family of the serving engine.")
    vendor: Literal["nvidia", "ascend"] = Field(description="Vendor of the accelerator.")
    priority: Annotated[int, INT32] = Field(
        0,
        description="The highest priority of a vendor's runtimes is selected; equal highest ones"
        " are ambiguous.",
    )
    container: Container = Field(description="The engine's container.")
    accelerator: Accelerator = Field(description="The device and where it is found.")
    health: Health = Field(
        Health.model_construct(), description="When a replica is ready, started and alive."
    )
    lifecycle: Lifecycle = Field(Lifecycle.model_construct(), description="How a replica ends.")
    metrics: Metrics | None = Field(None, description="The engine's own metrics.")
