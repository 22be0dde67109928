"""What is ours among the observed objects, and what was last applied of it."""

from hooks import wire
from hooks.k8s import objects
from hooks.k8s.objects import GroupKey, Object, ObjectKey


def find(groups: dict[str, dict[str, Object]], child: Object) -> Object | None:
    """The object of ``child``'s kind and name, if any."""
    return groups.get(objects.group_key(child), {}).get(objects.object_key(child))


def ours(child: Object, request: wire.CompositeRequest) -> Object | None:
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


def restore(observed: dict[str, dict[str, Object]]) -> list[Object]:
    """Every observed child as it was last applied."""
    return [
        as_last_applied(GroupKey(group), ObjectKey(key), child)
        for group, members in sorted(observed.items())
        for key, child in sorted(members.items())
    ]


def as_last_applied(group: GroupKey, key: ObjectKey, observed: Object) -> Object:
    """The child that Metacontroller remembers, under the identity that it has.

    Where nothing is remembered, an object without fields: merged with what is observed, it changes
    nothing and still keeps the child.
    """
    kind, _, api_version = group.partition(".")
    namespace, _, name = key.rpartition("/")
    remembered = objects.last_applied(observed) or {}
    metadata = objects.mapping(remembered, "metadata")
    identity = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        **remembered,
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, **identity},
    }
