"""The gateways' side of a plan: what they may know of the engine, and what they are given."""

from hooks.api.llmservice import Authentication, GatewayResources, LLMServiceSpec, ResourceAmounts
from hooks.k8s.objects import Object
from hooks.llmservice import arguments, plan
from hooks.llmservice.runtimes import Runtime


def plan_gateway(runtime: Runtime, spec: LLMServiceSpec, engine: plan.Engine) -> plan.Gateway:
    """What the gateways are told and given."""
    return plan.Gateway(
        resources=_gateway_resources(spec.endpoint.resources),
        readiness=_direct_readiness(engine),
        served_models=arguments.served_names(engine.args),
        inference_paths=runtime.inference_paths,
        first_byte_timeout=runtime.first_byte_timeout,
        idle_timeout=runtime.idle_timeout,
        drain_timeout=spec.scaling.drain_timeout,
        api_key=_api_key(spec.endpoint.authentication),
    )


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


def _gateway_resources(resources: GatewayResources | None) -> Object:
    if resources is None:
        return {}
    both = {"limits": _amounts(resources.limits), "requests": _amounts(resources.requests)}
    return {kind: amounts for kind, amounts in both.items() if amounts}


def _amounts(amounts: ResourceAmounts | None) -> dict[str, str]:
    if amounts is None:
        return {}
    both = {"cpu": amounts.cpu, "memory": amounts.memory}
    return {name: amount for name, amount in both.items() if amount is not None}
