"""Structural schemas for CRDs, emitted from the models.

pydantic's own JSON schema is not structural: an API server refuses its ``$ref``, its ``anyOf`` with
null and its ``const``. The models use few kinds of types, so a small emitter says all of them.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pydantic.fields import FieldInfo

from hooks.api.fields import Spec, Value

Schema = dict[str, Any]


def of_model(model: type[Spec], *, description: str | None = None) -> Schema:
    """The schema of ``model``; its docstring describes it where no field does."""
    fields = model.model_fields
    properties = {field.alias or name: _of_field(field) for name, field in fields.items()}
    required = [field.alias or name for name, field in fields.items() if field.is_required()]
    schema: Schema = {
        "type": "object",
        "description": description or _first_sentence(model),
        "properties": properties,
    }
    if required:
        schema["required"] = required
    if model.cel:
        schema["x-kubernetes-validations"] = [dataclasses.asdict(rule) for rule in model.cel]
    return schema


def _of_field(field: FieldInfo) -> Schema:
    assert field.description, f"{field} has no description"
    values = [found for found in field.metadata if isinstance(found, Value)]
    schema = _of_type(field.annotation, values)
    if not schema.get("properties"):
        schema |= _default(field)
    return schema | {"description": field.description}


def _of_type(annotation: Any, values: list[Value]) -> Schema:
    """The schema of an annotation; ``values`` stood beside it and say more than it does."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        inner = [found for found in arguments[1:] if isinstance(found, Value)]
        return _of_type(arguments[0], inner + values)
    if origin in (types.UnionType, typing.Union) and type(None) in arguments:
        (present,) = (argument for argument in arguments if argument is not type(None))
        return _of_type(present, values)
    schema: Schema = {}
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        schema = of_model(annotation)
    elif origin is tuple:
        schema = {"type": "array", "items": _of_type(arguments[0], [])}
    elif origin is Literal:
        schema = {"type": "string", "enum": list(arguments)}
    for value in values:
        schema |= value.schema
    assert schema, f"no schema is known for {annotation}"
    return schema


def _default(field: FieldInfo) -> Schema:
    """A default that an API server fills in; models and empty collections have none."""
    if isinstance(field.json_schema_extra, Mapping) and "default" in field.json_schema_extra:
        return {"default": field.json_schema_extra["default"]}
    if isinstance(field.default, bool | int | str):
        return {"default": field.default}
    return {}


def _first_sentence(model: type[Spec]) -> str:
    assert model.__doc__, f"{model} has no docstring"
    return model.__doc__.strip().splitlines()[0]
