"""What a newer release of ours brings to an engine's Pods waits until these change anyway.

The fetcher's image stands in the Pod template of an engine that stages on its node. A release that
names a newer one must not restart engines: the observed Deployment's image is rendered again, for
as long as nothing else of the template differs.
"""

import dataclasses

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import Object
from hooks.llmservice import memory, names
from hooks.llmservice.plan import Plan, StagingOnNode
from hooks.llmservice.render import backend
from hooks.settings import PullPolicy


def fetcher_image(plan: Plan, request: wire.CompositeRequest) -> Plan:
    """The plan, with the observed fetcher where that leaves the template as it was applied."""
    if not isinstance(plan.staging, StagingOnNode):
        return plan
    deployment = names.child(names.DEPLOYMENTS, plan.namespace, names.backend(plan.service))
    applied = objects.last_applied(memory.ours(deployment, request) or {})
    carried = _with(plan, plan.staging, _fetcher(applied))
    if objects.dig(backend.deployment(carried), *_TEMPLATE) == objects.dig(applied, *_TEMPLATE):
        return carried
    return plan


_TEMPLATE = ("spec", "template")


def _fetcher(applied: Object | None) -> Object:
    """The container in what was applied, or an empty object."""
    for container in objects.items(applied, *_TEMPLATE, "spec", "initContainers"):
        if container.get("name") == names.FETCHER_CONTAINER:
            return container
    return {}


def _with(plan: Plan, staging: StagingOnNode, container: Object) -> Plan:
    image = objects.text(container, "image") or staging.image
    policies: dict[str, PullPolicy] = {name: name for name in ("Always", "IfNotPresent", "Never")}
    policy = policies.get(objects.text(container, "imagePullPolicy"), staging.pull_policy)
    carried = dataclasses.replace(staging, image=image, pull_policy=policy)
    return dataclasses.replace(plan, staging=carried)
