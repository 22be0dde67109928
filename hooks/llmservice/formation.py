"""The way from one gateway to several and back, on which KEDA is always answered by who knows all.

One gateway answers KEDA itself; for several the aggregate scaler does. KEDA keeps the connection
that it has, whatever becomes of the Service that it was made through, so who answered so far has to
go before KEDA asks anybody else. In between each step waits for the one before it to be seen:

    to several: the aggregate scaler is there; KEDA's Service leads to it; the one gateway makes way
    for one that leaves KEDA alone, and with it goes KEDA's connection; the others follow.

    to one: the one gateway takes the others' place, and answers KEDA if it is asked; once they have
    ended their last requests, KEDA's Service leads to it; the aggregate scaler goes, and with it
    KEDA's connection.

Nothing is remembered: the observed objects tell the step, so that a number which is edited on the
way turns it around.
"""

import dataclasses

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Object
from hooks.llmservice import memory, names
from hooks.llmservice.plan import Formation, Plan
from hooks.llmservice.render import gateway as gateway_child


def step(plan: Plan, request: wire.CompositeRequest) -> Plan:
    """The plan, with the formation that may be asked for now on the way to its own."""
    observed = _observe(plan, request)
    if not observed.gateway and (plan.gateway.several or not observed.scaler):
        return plan
    on_the_way = _to_several(plan, observed) if plan.gateway.several else _to_one(observed)
    gateway = dataclasses.replace(plan.gateway, formation=on_the_way)
    return dataclasses.replace(plan, gateway=gateway)


def leaves_keda_alone(gateway: Object) -> bool:
    """Whether the gateways of a Deployment have an aggregate scaler that answers KEDA."""
    containers = objects.items(gateway, "spec", "template", "spec", "containers")
    flags = [objects.dig(container, "args") for container in containers]
    return any(gateway_child.MEMBER in given for given in flags if isinstance(given, list))


def is_rolled_out(deployment: Object) -> bool:
    """Whether all Pods of a Deployment are of its template, and available."""
    generation = objects.number(deployment, "metadata", "generation") or 0
    if (objects.number(deployment, "status", "observedGeneration") or 0) < generation:
        return False
    wanted = objects.number(deployment, "spec", "replicas")
    return all(
        (objects.number(deployment, "status", count) or 0) == wanted
        for count in ("replicas", "updatedReplicas", "availableReplicas")
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Observed:
    """Absent objects are empty."""

    gateway: Object
    scaler: Object
    asked: str  # The component that KEDA's Service leads to.
    pods: int  # Of gateways, the ones that end included.

    @property
    def has_members(self) -> bool:
        return leaves_keda_alone(self.gateway)


def _to_several(plan: Plan, observed: _Observed) -> Formation:
    if observed.has_members:
        one = objects.number(observed.gateway, "spec", "replicas") == 1
        replicas = 1 if one and not is_rolled_out(observed.gateway) else plan.gateway.replicas
        return Formation(gateways=replicas, members=True, aggregate=True, asked="scaler")
    if observed.asked == "scaler":
        return Formation(gateways=1, members=True, aggregate=True, asked="scaler")
    is_there = is_rolled_out(observed.scaler)
    return Formation(
        gateways=1, members=False, aggregate=True, asked="scaler" if is_there else "gateway"
    )


def _to_one(observed: _Observed) -> Formation:
    if observed.has_members:
        return Formation(gateways=1, members=False, aggregate=True, asked="scaler")
    if observed.asked == "gateway" or not observed.scaler:
        return Formation(gateways=1, members=False, aggregate=False, asked="gateway")
    is_alone = observed.pods == 1 and is_rolled_out(observed.gateway)
    return Formation(
        gateways=1, members=False, aggregate=True, asked="gateway" if is_alone else "scaler"
    )


def _observe(plan: Plan, request: wire.CompositeRequest) -> _Observed:
    gateway, scaler = names.gateway(plan.service), names.scaler(plan.service)
    service = _ours(names.SERVICES, scaler, plan, request)
    return _Observed(
        gateway=_ours(names.DEPLOYMENTS, gateway, plan, request),
        scaler=_ours(names.DEPLOYMENTS, scaler, plan, request),
        asked=objects.text(service, "spec", "selector", names.LABEL_COMPONENT),
        pods=sum(_is_live_gateway(pod) for pod in request.related.get(names.PODS, {}).values()),
    )


def _ours(group: GroupKey, name: str, plan: Plan, request: wire.CompositeRequest) -> Object:
    return memory.ours(names.child(group, plan.namespace, name), request) or {}


def _is_live_gateway(pod: Object) -> bool:
    labels = objects.mapping(pod, "metadata", "labels")
    ended = objects.text(pod, "status", "phase") in ("Failed", "Succeeded")
    return labels.get(names.LABEL_COMPONENT) == "gateway" and not ended
