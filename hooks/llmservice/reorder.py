"""Environments in an order that Metacontroller's merge would not give them.

It merges a container's variables by name: those that exist keep their places, and new ones come
last. The kubelet fills in `$(A)` only where A stands before, so an A that comes to an existing
`B=$(A)` would come too late, for ever. Where that happens the variables go first, while the
Deployment is paused and so makes no Pod of that template, and come back at the next look in their
own order.
"""

import re

from hooks.k8s import objects
from hooks.k8s.objects import Object

_REFERENCE = re.compile(r"\$\(([^()]+)\)")
_POD = ("spec", "template", "spec")
_CONTAINERS = ("containers", "initContainers")


def step(wanted: Object, observed: Object | None) -> Object:
    """The Deployment to ask for now on the way to the ``wanted`` one."""
    late = {
        name
        for name, container in _by_name(wanted).items()
        if observed is not None and _comes_late(name, container, observed)
    }
    return _without_variables(wanted, late) if late else wanted


def _comes_late(name: str, container: Object, observed: Object) -> bool:
    """Whether a reference among a container's variables would change its meaning by the merge."""
    references = _references(container)
    if not references:
        return False
    wanted = _names(container)
    kept = [variable for variable in _names(_by_name(observed).get(name)) if variable in wanted]
    before = {variable: place for place, variable in enumerate(wanted)}
    merged = {variable: place for place, variable in enumerate(dict.fromkeys([*kept, *wanted]))}
    if all(
        (before[variable] < before[used]) == (merged[variable] < merged[used])
        for variable, used in references
        if used in before
    ):
        return False
    # Both steps were taken: what the order is now is somebody else's doing.
    applied = objects.last_applied(observed)
    is_asked_for = _variables(container) == _variables(_by_name(applied).get(name))
    return not is_asked_for and objects.dig(applied, "spec", "paused") is not True


def _references(container: Object) -> list[tuple[str, str]]:
    """Each variable with each name in its value's `$(...)`."""
    return [
        (objects.text(variable, "name"), used)
        for variable in _variables(container)
        for used in _REFERENCE.findall(objects.text(variable, "value"))
    ]


def _names(container: Object | None) -> list[str]:
    return [objects.text(variable, "name") for variable in _variables(container)]


def _variables(container: Object | None) -> list[Object]:
    return objects.items(container, "env")


def _by_name(deployment: Object | None) -> dict[str, Object]:
    return {
        objects.text(container, "name"): container
        for kind in _CONTAINERS
        for container in objects.items(deployment, *_POD, kind)
    }


def _without_variables(deployment: Object, late: set[str]) -> Object:
    """Paused, and with no variable in the containers named."""
    pod = objects.mapping(deployment, *_POD)
    emptied = {
        # An empty list, not none: other people's variables stay.
        kind: [{**c, "env": []} if objects.text(c, "name") in late else c for c in pod[kind]]
        for kind in _CONTAINERS
        if kind in pod
    }
    spec = objects.mapping(deployment, "spec")
    template = {**objects.mapping(spec, "template"), "spec": {**pod, **emptied}}
    return {**deployment, "spec": {**spec, "paused": True, "template": template}}
