"""The JSON Schema of the report, derived from the dataclasses of the model.

    python -m trainperf.reporters.json.schema

prints it.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import msgspec

from trainperf.model import FORMAT_VERSION, Diagnosis

_POSITIVE = ("bound", "speedup", "low", "high", "interaction", "cores")
_SHARES = ("utilization",)
_NOT_NEGATIVE = (
    *("seconds", "seconds_per_step", "samples_per_s", "share", "steps", "line", "noise"),
    *("pairs", "legs", "floor", "loss_band", "break_even_steps", "calls", "kernels"),
    *("allocated_peak", "reserved_peak", "total", "retries", "ooms"),
    *("expected", "replicas", "hosts", "bytes", "break_even_batch", "efficiency", "devices"),
)


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12): every key present, none besides.

    Times are not negative; a share of utilisation is at most 1; a speed-up is above 0.
    """
    derived = msgspec.json.schema(Diagnosis)
    definitions = derived["$defs"]
    for name, definition in definitions.items():
        definition["description"] = inspect.cleandoc(definition.get("description", ""))
        if "properties" in definition:
            _tighten(definition)
        definitions[name] = definition
    top = definitions.pop("Diagnosis")
    top["properties"]["format_version"] = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "title": "trainperf report",
        "$defs": definitions,
    }


def _tighten(definition: dict[str, Any]) -> None:
    definition["additionalProperties"] = False
    definition["required"] = list(definition["properties"])  # defaults are written too
    for name, field in definition["properties"].items():
        field.pop("default", None)
        for number in _numbers(field):
            if name in _POSITIVE:
                number["exclusiveMinimum"] = 0
            elif name in _SHARES:
                number.update(minimum=0, maximum=1)
            elif name.endswith("_s") or name in _NOT_NEGATIVE:
                number["minimum"] = 0


def _numbers(field: dict[str, Any]) -> list[dict[str, Any]]:
    choices = field.get("anyOf", [field])
    return [choice for choice in choices if choice.get("type") in ("number", "integer")]


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
