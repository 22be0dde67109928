"""One sync of a DecoratorController's parent."""

from __future__ import annotations

from tests.cluster.standin import apply, objects, plan, responses
from tests.cluster.standin.informer import Informers
from tests.cluster.standin.objects import BadController, Obj
from tests.cluster.standin.runner import Runner, Setup

ATTACHED_BY = "metacontroller.k8s.io/decorator-controller"
"""The annotation that tells one Decorator's attachments from another's on the same parent."""


def start(informers: Informers, controller: Obj) -> Runner:
    """Start a DecoratorController; raises where it cannot run."""
    spec = controller["spec"]
    rules = spec["resources"]
    if len(rules) != 1 or "labelSelector" in rules[0] or "annotationSelector" in rules[0]:
        raise BadController("the stand-in serves Decorators of one parent kind, unselected")
    return Runner(informers, controller, rules[0], spec.get("attachments") or [], sync)


def sync(setup: Setup, parent: Obj) -> float:
    """Ask the hook, write its answer onto the parent, then apply it to the attachments."""
    name = setup.controller["metadata"]["name"]
    observed = [
        obj
        for informer in setup.children.values()
        for obj in informer.all()
        if objects.controlled_by(obj, parent)
        and objects.annotations_of(obj).get(ATTACHED_BY) == name
    ]
    request = {
        "controller": setup.controller,
        "object": parent,
        "attachments": objects.uniform_map(setup.children, observed),
        "related": setup.related.objects_for(parent),
        "finalizing": False,
    }
    answer = responses.parse_decorator(setup.sync_hook.call(request))
    wanted = [plan.annotated(obj, {ATTACHED_BY: name}) for obj in answer.attachments]
    after = plan.decoration(
        parent, labels=answer.labels, annotations=answer.annotations, status=answer.status
    )
    if after is not None and not apply.decorate(setup.client, setup.parent.resource, after):
        return answer.resync_after_seconds
    if not objects.deleting(parent):
        todo = plan.children(parent, observed, wanted, setup.strategies)
        apply.children(setup.client, setup.resources, todo)
    return answer.resync_after_seconds
