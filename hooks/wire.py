"""Metacontroller's requests and responses (hook version 2) as frozen models.

Only what is used is modelled. Requests are read leniently at their edges, since newer versions may
send more; responses are strict, since version 2 refuses unknown fields in them.
"""

from typing import Any, ClassVar, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hooks.k8s import objects
from hooks.k8s.objects import Object

# What is wrong with a body, by pydantic's name for it.
IN_WORDS = {"dict_type": "must be an object", "missing": "is required"}


class RequestError(Exception):
    """A body that is no hook request; the message says what is missing."""


class _Request(BaseModel):
    """A question about ``parent``."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)

    # Whether parents of this kind live in namespaces.
    namespaced: ClassVar[bool] = True

    parent: Object


class CompositeRequest(_Request):
    """A CompositeController's sync: the parent, its observed children, and what it asked to see.

    Neither map has a default: a body that lacks one shows no empty world, it shows nothing.
    """

    children: dict[str, dict[str, Object]]
    related: dict[str, dict[str, Object]]


class DecoratorRequest(_Request):
    """A DecoratorController's sync: the parent, its observed attachments, and what it asked for."""

    parent: Object = Field(alias="object")
    attachments: dict[str, dict[str, Object]]
    related: dict[str, dict[str, Object]]


class CustomizeRequest(_Request):
    """Asks which related objects a parent's sync needs. The same for both kinds of controllers."""


class RuntimeDecoratorRequest(DecoratorRequest):
    """The same about a cluster-scoped parent."""

    namespaced = False


class RuntimeCustomizeRequest(CustomizeRequest):
    """The same about a cluster-scoped parent."""

    namespaced = False


class Response(BaseModel):
    """An answer; version 2 refuses fields that it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True
    )


class CompositeResponse(Response):
    """The children as they should be, and the parent's whole status."""

    children: list[Object]  # No default: a child left out is a child deleted.
    status: Object
    resync_after_seconds: float = 0.0


class DecoratorResponse(Response):
    """The attachments as they should be, and what to write on the parent."""

    attachments: list[Object]  # No default: an attachment left out is an attachment deleted.
    annotations: dict[str, str]
    status: Object | None = None  # The whole of it; None leaves the parent's alone.
    resync_after_seconds: float = 0.0


class RelatedRule(Response):
    """One kind of related objects: by names, by labels, or all; never by both."""

    api_version: str
    resource: str
    namespace: str | None = None
    names: tuple[str, ...] | None = None
    label_selector: dict[str, Any] | None = None


class CustomizeResponse(Response):
    """Which related objects a parent's sync needs."""

    related_resources: list[RelatedRule]


Request = TypeVar("Request", bound=_Request)


def load(kind: type[Request], body: Any) -> Request:
    """``body`` as a request. Raises RequestError."""
    if not isinstance(body, dict):
        raise RequestError("the body is not a JSON object")
    try:
        request = kind.model_validate(body)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        raise RequestError(f"{where}: {IN_WORDS.get(fault['type'], fault['msg'])}") from None
    for field in ("name", "namespace") if kind.namespaced else ("name",):
        if not objects.text(request.parent, "metadata", field):
            raise RequestError(f"the parent's metadata.{field} is not a name")
    if isinstance(request, CompositeRequest):
        _refuse_server_side_apply(request.children)
    if isinstance(request, DecoratorRequest):
        _refuse_server_side_apply(request.attachments)
    return request


def _refuse_server_side_apply(observed: dict[str, dict[str, Object]]) -> None:
    """Refuses a Metacontroller whose apply strategy overwrites strangers' objects by force.

    It also forgets what was applied last, and with it what a mistake must give back. Seen from the
    second sync on: what it applied carries its name as a manager, and no memory of its own.
    """
    for members in observed.values():
        for child in members.values():
            managers = objects.items(child, "metadata", "managedFields")
            by_force = any(
                entry.get("manager") == "metacontroller" and entry.get("operation") == "Apply"
                for entry in managers
            )
            if by_force and objects.annotation(child, objects.LAST_APPLIED) is None:
                raise RequestError(
                    "Metacontroller runs with --apply-strategy=server-side-apply, which takes over"
                    " objects that are not ours; run it with dynamic-apply, its default"
                )


def dump(response: Response) -> Object:
    """``response`` as JSON-like data, without nulls."""
    return response.model_dump(by_alias=True, exclude_none=True)
