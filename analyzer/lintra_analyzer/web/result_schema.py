"""The JSON schema of an estimate, read from its dataclass: what `Estimate.to_dict` gives of it, field by field."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

Schema = dict[str, Any]

_NUMBER: Schema = {"type": ["number", "null"], "description": "null where the release supports no such number"}
_SCALARS: dict[object, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: _NUMBER,
    str: {"type": "string"},
    NoneType: {"type": "null"},
    # The number of dimensions is not part of the type; the field's own docstring says it.
    np.ndarray: {"type": "array", "description": "numbers, or lists of them; null where there is none"},
}


def result_schema(estimate: type) -> Schema:
    """Return the schema of an estimate's plain values; raise TypeError if a field's type has no plain form."""
    if not is_dataclass(estimate):
        raise TypeError(f"{estimate.__name__} is no dataclass")
    hints = get_type_hints(estimate, include_extras=False)
    shown = [field.name for field in fields(estimate) if field.metadata.get("plain", True)]
    return {
        "type": "object",
        "title": estimate.__name__,
        "properties": {name: _schema_of(hints[name]) for name in shown},
        "required": shown,
        "additionalProperties": False,
    }


def _schema_of(hint: object) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    # From Python 3.12 on numpy's NDArray is an alias that keeps its own name; its value says what it stands for.
    origin = get_origin(getattr(origin, "__value__", None)) or origin
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if origin in _SCALARS:
        return dict(_SCALARS[origin])
    if origin is Annotated:
        return _schema_of(arguments[0])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, UnionType}:
        return {"anyOf": _unique(map(_schema_of, arguments))}
    if origin is tuple and arguments[1:] != (...,):
        return {"type": "array", "prefixItems": list(map(_schema_of, arguments)), "items": False}
    if (origin is not None and issubclass(_class_of(origin), list | tuple)) or _is_sequence(origin):
        return {"type": "array", "items": _schema_of(arguments[0])}
    if isinstance(hint, type) and is_dataclass(hint):
        return result_schema(hint)
    raise TypeError(f"{hint} has no plain form")


def _class_of(origin: object) -> type:
    return origin if isinstance(origin, type) else object


def _is_sequence(origin: object) -> bool:
    return getattr(origin, "__name__", "") == "Sequence"


def _unique(schemas: Iterable[Schema]) -> list[Schema]:
    found: list[Schema] = []
    for schema in schemas:
        if schema not in found:
            found.append(schema)
    return found
