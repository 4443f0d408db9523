"""Where the values of a JSON text stand, so that one can be changed and the rest left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Extent = tuple[int, int]

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[ \t\r\n,:]*")


def member(raw: str, start: int, name: str) -> Extent:
    """Return the extent of a member's value in the object that starts at `start`."""
    parts = list(items(raw, start))
    names: list[str] = [json.loads(raw[slice(*key)]) for key in parts[::2]]
    return dict(zip(names, parts[1::2], strict=True))[name]


def items(raw: str, start: int) -> Iterator[Extent]:
    """Yield the extents of what an array holds, or of an object its keys and values in turn."""
    at = _after(raw, start + 1)
    while raw[at] not in "]}":
        end = _DECODER.raw_decode(raw, at)[1]
        yield at, end
        at = _after(raw, end)


def lines_like(before: str, text: str) -> str:
    """Return a text as JSON in the way that `before` is written: a string, or a list of lines."""
    ascii_only = before.isascii() and "\\u" in before
    if before.startswith('"'):
        return json.dumps(text, ensure_ascii=ascii_only)
    extents = list(items(before, 0))
    there = {json.loads(before[slice(*one)]): before[slice(*one)] for one in extents}
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    written = [there.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in lines]
    opening, closing = before[: extents[0][0]], before[extents[-1][1] :]
    between = f",{opening[1:] or ' '}"
    if len(extents) > 1:
        between = before[extents[0][1] : extents[1][0]]
    return opening + between.join(written) + closing


def _after(raw: str, at: int) -> int:
    found = _BETWEEN.match(raw, at)
    assert found is not None
    return found.end()
