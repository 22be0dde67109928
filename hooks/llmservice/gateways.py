"""The gateways' side of a plan: what they may know of the engine, and what they are given."""

import re
from collections.abc import Iterator

from hooks.api.llmservice import Authentication, GatewayResources, LLMServiceSpec, ResourceAmounts
from hooks.k8s import objects, quantity
from hooks.k8s.objects import Object
from hooks.llmservice import arguments, names, plan
from hooks.llmservice.runtimes import Runtime
from hooks.settings import Settings

_MIB = 2**20

# Seen of a gateway under load: the program and its libraries, and a request that is held.
_PROGRAM_MIB = 128
_REQUEST_KIB = 64

# What a gateway keeps of waiting requests' bodies, and what it needs for one of the largest: with
# less, such a request would be told to come again for ever.
_HELD_MIB = 256
_LEAST_HELD_MIB = 64


class GatewayError(ValueError):
    """An LLMService asks for gateways that cannot be; the message says what to change."""


def check(parent: Object) -> Iterator[str]:
    """What is wrong with the annotations that are for the gateways."""
    for read in (_replicas, _data_heartbeats):
        try:
            read(parent)
        except GatewayError as error:
            yield str(error)


def check_spec(spec: LLMServiceSpec) -> None:
    """Raises GatewayError where the spec gives gateways less than they need."""
    _resources(spec.endpoint.resources, spec.endpoint.max_queue)


def plan_gateway(
    parent: Object,
    spec: LLMServiceSpec,
    settings: Settings,
    *,
    runtime: Runtime,
    engine: plan.Engine,
) -> plan.Gateway:
    """What the gateways are told and given, where `check` and `check_spec` find nothing wrong."""
    resources, held_bytes = _resources(spec.endpoint.resources, spec.endpoint.max_queue)
    tls = None if spec.scaling.external_scaler is None else spec.scaling.external_scaler.tls
    replicas = _replicas(parent) or settings.gateway_replicas
    return plan.Gateway(
        replicas=replicas,
        formation=formation_of(replicas),
        resources=resources,
        held_bytes=held_bytes,
        readiness=_direct_readiness(engine),
        served_models=arguments.served_names(engine.args),
        inference_paths=runtime.inference_paths,
        first_byte_timeout=runtime.first_byte_timeout,
        idle_timeout=runtime.idle_timeout,
        drain_timeout=spec.scaling.drain_timeout,
        api_key=_api_key(spec.endpoint.authentication),
        data_heartbeats=_data_heartbeats(parent),
        scaler_tls="" if tls is None else tls.server_secret_name,
    )


def _replicas(parent: Object) -> int | None:
    value = objects.annotation(parent, names.GATEWAY_REPLICAS)
    if value is None:
        return None
    if re.fullmatch("[1-9][0-9]{0,2}", value):
        return int(value)
    raise GatewayError(
        f"annotation {names.GATEWAY_REPLICAS}: found {value[:80]!r}, expected 1 to 999"
    )


def formation_of(replicas: int) -> plan.Formation:
    """What so many gateways come to in the end."""
    several = replicas > 1
    return plan.Formation(
        gateways=replicas,
        members=several,
        aggregate=several,
        asked="scaler" if several else "gateway",
    )


def _data_heartbeats(parent: Object) -> bool:
    value = objects.annotation(parent, names.DATA_HEARTBEATS)
    if value not in (None, "true", "false"):
        raise GatewayError(
            f"annotation {names.DATA_HEARTBEATS}: found {value[:80]!r}, expected 'true' or 'false'"
        )
    return value == "true"


def _api_key(authentication: Authentication | None) -> plan.ApiKey | plan.NoApiKey:
    if authentication is None:
        return plan.NoApiKey()
    return plan.ApiKey(secret=authentication.secret_ref.name, key=authentication.secret_ref.key)


def _direct_readiness(engine: plan.Engine) -> Object:
    """The readiness request that the gateway may send itself; empty where only a kubelet can judge.

    A delay or a row of successes is a judgement over time, and another port or host is none of the
    gateway's business.
    """
    probe = engine.readiness
    request = probe.get("httpGet")
    if request is None or "initialDelaySeconds" in probe or probe.get("successThreshold", 1) != 1:
        return {}
    if "host" in request or request["port"] not in (engine.port.name, engine.port.number):
        return {}
    return {
        "headers": request.get("httpHeaders", []),
        "path": request.get("path", "/"),
        "scheme": request.get("scheme", "HTTP"),
    }


def _resources(given: GatewayResources | None, max_queue: int) -> tuple[Object, int]:
    """The container's resources, and how many bytes of bodies fit into its memory.

    What is given is taken as it is. Else the limit of memory covers the program, a full queue and
    the bodies in it; a smaller limit means fewer bodies, never less than one of the largest.
    Raises GatewayError where the limit has no place for that: the kernel would end the gateway
    under load, and all streams with it.
    """
    limits = _amounts(given.limits if given else None)
    requests = _amounts(given.requests if given else None)
    used_mib = _PROGRAM_MIB + -(-max_queue * _REQUEST_KIB // 1024)
    if "memory" in limits:
        free_mib = int(quantity.parse(limits["memory"]) // _MIB) - used_mib
        if free_mib < _LEAST_HELD_MIB:
            raise GatewayError(
                f"spec.endpoint.resources.limits.memory is {limits['memory']}; with maxQueue"
                f" {max_queue} a gateway needs {used_mib + _LEAST_HELD_MIB}Mi: raise it, lower"
                " spec.endpoint.maxQueue, or leave the limit out"
            )
        held_mib = min(_HELD_MIB, free_mib)
    else:
        held_mib = _HELD_MIB
        asked_mib = -(-quantity.parse(requests.get("memory", "0")) // _MIB)
        limits["memory"] = quantity.canonical(f"{max(used_mib + held_mib, int(asked_mib))}Mi")
    # Without a request of its own the limit would count as one.
    requests.setdefault("memory", min(f"{_PROGRAM_MIB}Mi", limits["memory"], key=quantity.parse))
    return {"limits": limits, "requests": requests}, held_mib * _MIB


def _amounts(amounts: ResourceAmounts | None) -> dict[str, str]:
    if amounts is None:
        return {}
    both = {"cpu": amounts.cpu, "memory": amounts.memory}
    return {name: amount for name, amount in both.items() if amount is not None}
