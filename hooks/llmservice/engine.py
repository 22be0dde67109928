"""The engine's side of a plan: its container and its probes."""

from collections.abc import Mapping
from fractions import Fraction

from hooks.api.llmservice import LLMServiceSpec
from hooks.api.pods import dump
from hooks.k8s import objects, quantity
from hooks.k8s.objects import Object
from hooks.llmservice import arguments, drain, environment, names, plan, vendors
from hooks.llmservice.runtimes import Runtime

# Kubernetes' own defaults, for what a probe leaves out.
_PERIOD_SECONDS = 10
_FAILURE_THRESHOLD = 3

# The Deployment's progress deadline is made from it and has 32 bits.
_LONGEST_BUDGET_SECONDS = 2**30


def plan_engine(
    runtime: Runtime, spec: LLMServiceSpec, values: Mapping[str, str], place: environment.Place
) -> plan.Engine:
    """The engine's container."""
    container = runtime.spec.container
    accelerator = runtime.spec.accelerator
    startup = _startup(runtime)
    return plan.Engine(
        image=container.image,
        args=(
            *(arguments.fill(argument, values) for argument in container.args),
            *spec.runtime.args_override,
        ),
        env=environment.of_engine(container.env, values, place),
        port=plan.Port(name=container.port.name, number=container.port.container_port),
        resources=_resources(runtime, spec),
        shared_memory=_shared_memory(spec),
        readiness=_readiness(runtime),
        startup=startup,
        liveness=dump(runtime.spec.health.liveness) if runtime.spec.health.liveness else {},
        pre_stop=drain.pre_stop(runtime.spec, drain=spec.scaling.drain_timeout),
        grace_seconds=drain.grace_seconds(runtime.spec, drain=spec.scaling.drain_timeout),
        startup_budget_seconds=_budget(startup),
        scrape=_scrape(runtime),
        node_selector=dict(accelerator.node_selector),
        tolerations=tuple(dump(toleration) for toleration in accelerator.tolerations),
        scheduler=accelerator.scheduler.name or "",
        queue=accelerator.scheduler.queue or "",
    )


def _resources(runtime: Runtime, spec: LLMServiceSpec) -> Object:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if spec.resources.cpu is not None:
        requests["cpu"] = spec.resources.cpu
    if spec.resources.memory is not None:
        requests["memory"] = limits["memory"] = spec.resources.memory
    if runtime.has_accelerator:
        vendor = vendors.KNOWN[runtime.spec.vendor]
        devices = vendor.devices(runtime.spec.accelerator, spec.resources.accelerators)
        requests |= devices
        limits |= devices
    both = {"limits": limits, "requests": requests}
    return {kind: amounts for kind, amounts in both.items() if amounts}


def _shared_memory(spec: LLMServiceSpec) -> str:
    """Half of the memory limit, which it counts against; Linux' own share for a tmpfs."""
    if spec.resources.memory is None:
        return ""
    half = Fraction(quantity.parse(spec.resources.memory) // 2)
    return quantity.render(half, binary=True) if half >= 1 else ""


def _readiness(runtime: Runtime) -> Object:
    probe = runtime.spec.health.readiness
    if probe is not None:
        return dump(probe)
    # An engine under full load answers /health late (150 ms measured), so one second is too near.
    return _health(runtime) | {"periodSeconds": 5, "timeoutSeconds": 5}


def _startup(runtime: Runtime) -> Object:
    probe = runtime.spec.health.startup
    if probe is not None:
        return dump(probe)
    return _health(runtime) | {"failureThreshold": 60, "periodSeconds": 10}


def _health(runtime: Runtime) -> Object:
    return {"httpGet": {"path": "/health", "port": runtime.spec.container.port.name}}


def _budget(startup: Object) -> int:
    """Seconds that the startup probe allows."""
    period = startup.get("periodSeconds", _PERIOD_SECONDS)
    failures = startup.get("failureThreshold", _FAILURE_THRESHOLD)
    budget: int = startup.get("initialDelaySeconds", 0) + period * failures
    return min(budget, _LONGEST_BUDGET_SECONDS)


def _scrape(runtime: Runtime) -> dict[str, str]:
    """Where the engine's metrics are and what they are called, for whoever scrapes them."""
    metrics = runtime.spec.metrics
    if metrics is None:
        return {}
    called = {
        "kvCacheUtil": metrics.kv_cache_util,
        "queueDepth": metrics.queue_depth,
        "running": metrics.running,
        "ttft": metrics.ttft,
    }
    return {
        "prometheus.io/path": metrics.path,
        "prometheus.io/port": str(drain.metrics_port(runtime.spec, metrics)),
        "prometheus.io/scrape": "true",
        names.METRIC_NAMES: objects.compact({k: v for k, v in called.items() if v is not None}),
    }
