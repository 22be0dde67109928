"""One sync of a CompositeController's parent."""

from __future__ import annotations

from tests.cluster.standin import apply, objects, plan, responses
from tests.cluster.standin.informer import Informer, Informers
from tests.cluster.standin.objects import BadController, Obj
from tests.cluster.standin.runner import Runner, Setup


def start(informers: Informers, controller: Obj) -> Runner:
    """Start a CompositeController; raises where it cannot run."""
    spec = controller["spec"]
    if not spec.get("generateSelector"):
        raise BadController("the stand-in serves Composites with generateSelector only")
    children = spec.get("childResources") or []
    return Runner(informers, controller, spec["parentResource"], children, sync)


def sync(setup: Setup, parent: Obj) -> float:
    """Ask the hook, apply its answer to the children, then report the status."""
    observed = [child for i in setup.children.values() for child in _claim(setup, i, parent)]
    request = {
        "controller": setup.controller,
        "parent": parent,
        "children": objects.uniform_map(setup.children, observed),
        "related": setup.related.objects_for(parent),
        "finalizing": False,
    }
    answer = responses.parse_composite(setup.sync_hook.call(request))
    wanted = [plan.selected(child, parent) for child in answer.children]
    status = {**(answer.status or {}), "observedGeneration": parent["metadata"]["generation"]}
    try:
        if not objects.deleting(parent):
            todo = plan.children(parent, observed, wanted, setup.strategies)
            apply.children(setup.client, setup.resources, todo)
    finally:
        # A refused child must not keep the status from saying how things are.
        apply.status(setup.client, setup.parent.resource, parent, status)
    return answer.resync_after_seconds


def _claim(setup: Setup, informer: Informer, parent: Obj) -> list[Obj]:
    """The parent's children of one kind, after adopting orphans and releasing strays.

    One that was just adopted is still seen as it was before.
    """
    client, resource = setup.client, informer.resource
    claimed = []
    for child in informer.all():
        match plan.claim(parent, child):
            case plan.Claim.OURS:
                claimed.append(child)
            case plan.Claim.ADOPT:
                apply.adopt(client, setup.parent.resource, parent, resource, child)
                claimed.append(child)
            case plan.Claim.RELEASE:
                apply.release(client, resource, parent, child)
            case plan.Claim.NOT_OURS:
                pass
    return claimed
