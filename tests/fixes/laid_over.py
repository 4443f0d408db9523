"""Fields laid over the evidence of a recording: a path into it, and a value as text.

A path is of attributes (without the `_` of those that may be missing) and keys: `[index]`, `[name]`
(the first element that has a field of that value) or `[+]` (one more). A value is JSON, `missing
"why"` or a name of `boxes`. A number stands for a measure or a probe, ± 2 % unless it says
`1.2 ± 0.3`, and "train.py:3:4-20 main" for a site.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from fixes import boxes
from trainperf.model import Evidence, Measure, Missing, Probe, Site

USUAL = 0.02
"""Half the interval of a measure or a probe, as a share, where none is given."""

PLACE = re.compile(r"(.+?):(\d+)(?::(\d+)-(\d+))?(?: (\S+))?")
STEP = re.compile(r"\.?(\w+)|(\[[^\]]+)\]")
VALUE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]+)|(?P<around>[\d.e-]+) ± (?P<half>[\d.e-]+)|missing")


class Around(NamedTuple):
    """A number with half the width of its interval."""

    middle: float
    half: float


def parsed(text: str) -> tuple[Any, str]:
    """The value at the beginning of a text, and what follows it."""
    found = VALUE.match(text)
    if found is None:
        value, end = json.JSONDecoder(parse_float=_number).raw_decode(text)
        return value, text[end:].strip()
    rest = text[found.end() :].strip()
    if found["name"]:
        return getattr(boxes, found["name"]), rest
    if found["around"]:
        return Around(float(found["around"]), float(found["half"])), rest
    reason, rest = parsed(rest) if rest[:1] == '"' else ("not measured in this case", rest)
    return Missing(reason), rest


def _number(text: str) -> float:
    """A number, whole where it is: `20e9` bytes."""
    return int(float(text)) if "e" in text and float(text).is_integer() else float(text)


def lay(evidence: Evidence, path: str, value: Any) -> Evidence:
    """The same evidence with a value at a path; raises where there is no such field or type."""
    steps = [word or key for word, key in STEP.findall(path)]
    made: Evidence = _lay(evidence, Evidence, steps, value)
    return made


def _lay(at: Any, type_: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return _built(value, type_)
    step, *further = steps
    type_ = type(at) if is_dataclass(at) else _alternatives(type_)[0]
    if step[0] != "[" and is_dataclass(type_):
        name, inner = _fields(type_)[step]
        return replace(at, **{name: _lay(getattr(at, name), inner, further, value)})
    key = step.removeprefix("[")
    if isinstance(at, dict):
        inner = (get_args(type_) or (str, Any))[1]
        return {**at, key: _lay(at.get(key), inner, further, value)}
    inner = get_args(type_)[0]
    if key == "+":
        return (*at, _lay(None, inner, further, value))
    whole = key.lstrip("-").isdigit()
    named = (place for place, item in enumerate(at) if key in vars(item).values())
    place = range(len(at))[int(key)] if whole else next(named)
    return (*at[:place], _lay(at[place], inner, further, value), *at[place + 1 :])


@cache
def _fields(type_: Any) -> dict[str, tuple[str, Any]]:
    """The name and type of each field of a dataclass, by the name without a `_` at its end."""
    hints = get_type_hints(type_)
    return {field.name.rstrip("_"): (field.name, hints[field.name]) for field in fields(type_)}


def _alternatives(type_: Any) -> tuple[Any, ...]:
    """What a type is apart from None and Missing."""
    if get_origin(type_) not in (Union, UnionType):
        return (type_,)
    return tuple(item for item in get_args(type_) if item not in (NoneType, Missing))


def _built(value: Any, type_: Any) -> Any:
    """A value of a type from what a line says; raises where it is none."""
    if value is None or isinstance(value, Missing):
        assert type_ is Any or type(value) in get_args(type_), f"{value} for {type_}"
        return value
    alternatives = _alternatives(type_)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and alternatives[0] in (Measure, Probe):
        value = Around(value, USUAL * value)
    if len(alternatives) > 1:
        return msgspec.convert(value, Union[alternatives])  # noqa: UP007
    (type_,) = alternatives
    if isinstance(value, Around):
        return _around(type_, value.middle, value.middle - value.half, value.middle + value.half)
    if type_ is Site and isinstance(value, str):
        return _site(value)
    if is_dataclass(type_) and isinstance(value, dict):
        named = {_fields(type_)[key]: item for key, item in value.items()}
        return type_(**{name: _built(item, inner) for (name, inner), item in named.items()})
    if get_origin(type_) is tuple and isinstance(value, list):
        inner = get_args(type_)
        types = inner if inner[-1] is not Ellipsis else inner[:1] * len(value)
        return tuple(_built(item, own) for item, own in zip(value, types, strict=True))
    if get_origin(type_) is dict and isinstance(value, dict):
        return {key: _built(item, get_args(type_)[1]) for key, item in value.items()}
    if is_dataclass(type_) or isinstance(value, tuple):  # a named value
        assert isinstance(value, get_origin(type_) or type_), f"{value} for {type_}"
        return value
    return msgspec.convert(value, type_)


def _around(type_: Any, middle: float, low: float, high: float) -> Measure | Probe:
    if type_ is Measure:
        return Measure(middle, 30, (middle,) * 3, low=low, high=high)
    assert type_ is Probe, f"an interval for {type_}"
    return Probe("", 0.010, 0.010 / middle, middle, low, high)


def _site(text: str) -> Site:
    found = PLACE.fullmatch(text)
    assert found is not None, text
    file, line, col, end, function = found.groups()
    if col is None:
        return Site(file, int(line), function or "")
    return Site(file, int(line), function or "", int(col), int(line), int(end))
