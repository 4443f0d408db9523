"""Frozen values to what JSON can hold, and back, by their types.

The keys are the names of the fields; a number that was not taken is an object with its `reason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trainperf.model.basics import Missing


@cache
def keys(kind: type) -> Mapping[str, tuple[Field[Any], Any]]:
    """The keys of a dataclass as it is written, each with its field and its type."""
    hints = get_type_hints(kind)
    return {
        field.name.rstrip("_"): (field, hints[field.name])
        for field in fields(kind)
        if "internal" not in field.metadata
    }


def encoded(value: object) -> Any:
    """Return dataclasses as dictionaries, and tuples as lists, however deep they stand."""
    if is_dataclass(value) and not isinstance(value, type):
        own = keys(type(value))
        return {key: encoded(getattr(value, field.name)) for key, (field, _) in own.items()}
    if isinstance(value, dict):
        return {key: encoded(inner) for key, inner in value.items()}
    return [encoded(inner) for inner in value] if isinstance(value, list | tuple) else value


def decoded(kind: Any, value: Any, at: str = "$") -> Any:
    """Return the value of a type that `encoded` made, `at` that path.

    Keys that the type does not have are left out. Raises `msgspec.ValidationError`.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        if Missing in arguments and isinstance(value, dict) and value.keys() == {"reason"}:
            return Missing(str(value["reason"]))
        kinds = [one for one in arguments if one not in (NoneType, Missing)]
        if len(kinds) == 1:
            return decoded(kinds[0], value, at)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, dict):
            raise msgspec.ValidationError(f"Expected `object` - at `{at}`")
        given = {}
        for key, (field, hint) in keys(kind).items():
            if key in value:
                given[field.name] = decoded(hint, value[key], f"{at}.{key}")
            elif field.default is MISSING and field.default_factory is MISSING:
                raise msgspec.ValidationError(f"Object missing required field `{key}` - at `{at}`")
        try:
            return kind(**given)
        except ValueError as error:  # it checks itself
            raise msgspec.ValidationError(f"{error} - at `{at}`") from error
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is Ellipsis:
            arguments = arguments[:1] * len(value)
        if len(arguments) == len(value):
            pairs = enumerate(zip(arguments, value, strict=True))
            return tuple(decoded(one, inner, f"{at}[{index}]") for index, (one, inner) in pairs)
    if origin is dict and isinstance(value, dict) and arguments[0] is str:
        of = arguments[1]
        return {key: decoded(of, inner, f"{at}.{key}") for key, inner in value.items()}
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `{at}`") from error
