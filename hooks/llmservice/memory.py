"""What is ours among the observed objects, and what was last applied of it."""

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Identity, Object, ObjectKey


def find(groups: dict[str, dict[str, Object]], child: Identity) -> Object | None:
    """The object of ``child``'s kind and name, if any."""
    return groups.get(child.group, {}).get(child.key)


def ours(child: Identity, request: wire.CompositeRequest) -> Object | None:
    """The observed object that is this child, if any.

    One of ours that is only among the related ones was not claimed yet; Metacontroller finds it at
    its next look.
    """
    if (observed := find(request.children, child)) is not None:
        return observed
    held = find(request.related, child)
    owner = objects.text(objects.controller_of(held or {}), "uid")
    return held if owner and owner == objects.text(request.parent, "metadata", "uid") else None


def annotation(observed: Object, name: str) -> str | None:
    """An annotation of ours, also where somebody removed it from the object."""
    value = objects.annotation(observed, name)
    return value if value is not None else objects.annotation(objects.last_applied(observed), name)


def restore(observed: dict[str, dict[str, Object]]) -> dict[Identity, Object]:
    """Every observed child as it was last applied."""
    return {
        (child := Identity(GroupKey(group), ObjectKey(key))): as_last_applied(child, held)
        for group, members in sorted(observed.items())
        for key, held in sorted(members.items())
    }


def as_last_applied(child: Identity, observed: Object) -> Object:
    """The child that Metacontroller remembers, under the identity that it has.

    Where nothing is remembered, an object without fields: merged with what is observed, it changes
    nothing and still keeps the child.
    """
    kind, _, api_version = child.group.partition(".")
    namespace, _, name = child.key.rpartition("/")
    remembered = objects.last_applied(observed) or {}
    metadata = objects.mapping(remembered, "metadata")
    identity = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        **remembered,
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, **identity},
    }
