"""From the rendered Deployments to what runs on this machine: programs, probes, drains. Pure."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hooks.api import llmservice, runtime
from hooks.k8s import objects
from hooks.k8s.objects import Object
from local import command, drain, kubelet
from local.processes import Program
from local.slices import ADDRESS

# Kubernetes' defaults, for what a Pod template leaves out.
GRACE_SECONDS = 30
PROBE_PERIOD_SECONDS = 10
PROBE_FAILURES = 3
PROBE_TIMEOUT_SECONDS = 1


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """This process's own, with the folder of its interpreter first in PATH.

    There lie the commands that are installed beside ``noctaya``, whether or not its virtual
    environment is activated.
    """
    here = str(Path(sys.executable).parent)
    return {**inherited, "PATH": os.pathsep.join([here, inherited.get("PATH", os.defpath)])}


def container(deployment: Object) -> Object:
    return objects.items(deployment, "spec", "template", "spec", "containers")[0]


def engine(
    deployment: Object, words: Sequence[str], inherited: Mapping[str, str]
) -> Callable[[int], Program]:
    """The runtime's local command with the container's own arguments and environment.

    Variables that a cluster takes from a Secret or a field come from the runner's environment.
    """
    rendered = container(deployment)
    given = {
        objects.text(entry, "name"): entry["value"]
        for entry in objects.items(rendered, "env")
        if isinstance(entry.get("value"), str)
    }

    def program(port: int) -> Program:
        own = {**given, "HOST": ADDRESS, "PORT": str(port)}
        argv = command.expand([*words, *_arguments(rendered)], own)
        return Program(argv=argv, env={**inherited, **own})

    return program


def gateway(
    deployment: Object,
    inherited: Mapping[str, str],
    *,
    scaler: str,
    replicas: Path,
    api_key: Path | None,
) -> Callable[[int], Program]:
    """The rendered gateway; what only this machine can know comes after, and wins."""
    rendered = command.expand(_arguments(container(deployment)), {})

    def program(port: int) -> Program:
        argv = [
            # -P: a folder named gateway in the working directory is not what is meant.
            *(sys.executable, "-P", "-m", "gateway"),
            *rendered,
            *("--listen", f"{ADDRESS}:{port}"),
            *("--scaler-listen", scaler),
            *("--replicas-from", f"file:{replicas}"),
            # Nobody else sends requests here: once it is told to stop, none follow.
            *("--accept-after-term-seconds", "0"),
            *(("--api-key-file", str(api_key)) if api_key is not None else ()),
        ]
        return Program(argv=argv, env=inherited)

    return program


def served_model(gateway_deployment: Object) -> str | None:
    """A name that the endpoint takes for its model; None: any name."""
    flag = "--served-model="
    given = _arguments(container(gateway_deployment))
    return next((word.removeprefix(flag) for word in given if word.startswith(flag)), None)


def probe(deployment: Object) -> kubelet.Probe | None:
    """The container's readiness request; None where readiness is not asked by HTTP."""
    found = objects.mapping(container(deployment), "readinessProbe")
    request = objects.mapping(found, "httpGet")
    if not request:
        return None
    return kubelet.Probe(
        path=objects.text(request, "path") or "/",
        tls=objects.text(request, "scheme") == "HTTPS",
        headers=tuple(
            (objects.text(header, "name"), objects.text(header, "value"))
            for header in objects.items(request, "httpHeaders")
        ),
        period_seconds=objects.number(found, "periodSeconds") or PROBE_PERIOD_SECONDS,
        failure_threshold=objects.number(found, "failureThreshold") or PROBE_FAILURES,
        timeout_seconds=objects.number(found, "timeoutSeconds") or PROBE_TIMEOUT_SECONDS,
    )


def holds_device(deployment: Object) -> bool:
    """Whether a replica asks for more than a machine's CPU and memory."""
    limits = objects.mapping(container(deployment), "resources", "limits")
    return bool(set(limits) - {"cpu", "memory", "ephemeral-storage"})


def grace_seconds(deployment: Object) -> float:
    template = objects.mapping(deployment, "spec", "template", "spec")
    found = objects.number(template, "terminationGracePeriodSeconds")
    return GRACE_SECONDS if found is None else found


def drained(
    service: llmservice.LLMServiceSpec, engine_runtime: runtime.InferenceRuntimeSpec
) -> drain.Drain:
    """The drain that the runtime asks for; none where it asks for none."""
    if not engine_runtime.lifecycle.pre_stop_drain:
        return drain.NONE
    seconds = float(service.scaling.drain_timeout)
    metrics = engine_runtime.metrics
    if metrics is None or metrics.running is None:
        return drain.Drain(seconds=seconds)
    return drain.Drain(
        seconds=seconds,
        metrics_path=metrics.path,
        gauges=(metrics.running, metrics.queue_depth),
    )


def _arguments(rendered: Object) -> list[str]:
    found = objects.dig(rendered, "args")
    return [str(argument) for argument in found] if isinstance(found, list) else []
