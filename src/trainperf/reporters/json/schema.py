"""The JSON Schema of the report, derived from the dataclasses of the model.

    python -m trainperf.reporters.json.schema

prints it.
"""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from trainperf.model import FORMAT_VERSION, Diagnosis
from trainperf.model.encoding import keys

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

_POSITIVE = ("bound", "speedup", "low", "high", "cores")
_SHARES = ("utilization",)
_NOT_NEGATIVE = (
    *("seconds", "seconds_per_step", "share", "steps", "line", "pairs", "legs", "floor"),
    *("loss_band", "break_even_steps", "calls", "kernels", "expected", "replicas", "hosts"),
    *("bytes", "efficiency", "devices"),
)


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12): every key present, none besides.

    Times are not negative; a share of utilisation is at most 1; a speed-up is above 0.
    """
    definitions: dict[str, Any] = {}
    _of(Diagnosis, "", definitions)
    top = definitions.pop("Diagnosis")
    top["properties"]["format_version"] = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "title": "trainperf report",
        "$defs": definitions,
    }


def _of(kind: Any, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field of that type and name; dataclasses go into `definitions`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in (Union, UnionType):
        return {"anyOf": [_of(one, name, definitions) for one in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], "", definitions)}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _of(arguments[0], "", definitions)}
    if origin is tuple:
        items = [_of(one, "", definitions) for one in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if is_dataclass(kind):
        return _defined(kind, definitions)
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if kind in (int, float):
        return {"type": TYPES[kind], **_limits(name)}
    return {"type": TYPES[kind]}


def _defined(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = defined = {
            "title": kind.__name__,
            "description": inspect.cleandoc(kind.__doc__ or ""),
            "type": "object",
        }
        own = {key: _of(hint, key, definitions) for key, (_, hint) in keys(kind).items()}
        defined |= {"properties": own, "required": list(own), "additionalProperties": False}
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _limits(name: str) -> dict[str, int]:
    if name in _POSITIVE:
        return {"exclusiveMinimum": 0}
    if name in _SHARES:
        return {"minimum": 0, "maximum": 1}
    return {"minimum": 0} if name.endswith("_s") or name in _NOT_NEGATIVE else {}


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
