"""A collate function put around the one that a loader has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader._edits import check_call

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

CUT = "to_longest"


def cut_to_longest(script: Script, site: Site, place: dict[str, Any]) -> None:
    """Have the loader built at `site` cut each batch behind its longest sequence.

    `place` is a `PaddedPlace` as a dictionary. Raises `CannotRewrite` where the call is not of
    `DataLoader`, or its collate function cannot be seen.
    """
    check_call(script, site)
    torch = script.module_name(site.file, "torch")
    put_around(script, site, place, "collate_fn", f"{torch}.utils.data.default_collate", 6)


def put_around(
    script: Script, site: Site, place: dict[str, Any], name: str, default: str, position: int
) -> None:
    """Put a function that cuts the padding around the one which argument `name` of a call is.

    `default` is the function where it is left out or None. Raises `CannotRewrite` where it cannot
    be seen.
    """
    cut = script.free_name(site.file, CUT)
    torch = script.module_name(site.file, "torch")
    argument = script.argument(site, position, name)
    own = None if argument is None else script.expression(argument)
    if own in (None, "None"):
        text = _function(f"def {cut}(samples):", f"{default}(samples)", torch, place)
        value = cut
    else:
        functools = script.module_name(site.file, "functools")
        text = _function(f"def {cut}(collate, samples):", "collate(samples)", torch, place)
        value = f"{functools}.partial({cut}, {_one_line(own or '')})"
    script.set_keyword(site, name, value, position=position)
    script.insert_function(site.file, text)


def _one_line(text: str) -> str:
    return ast.unparse(ast.parse(f"({text})", mode="eval").body)


def _function(head: str, collated: str, torch: str, place: dict[str, Any]) -> str:
    """The function as source: it collates, finds the longest sequence, and cuts behind it."""
    kind, at = place["kind"], place["at"]
    if kind not in ("tensor", "list", "tuple", "dict"):
        raise CannotRewrite("where the sequences are in a batch cannot be told")
    sequences = "batch" if kind == "tensor" else f"batch[{at!r}]"
    given = f"{sequences} != {place['value']!r}"
    if place["features"]:
        given = f"({given}).any(dim=2)"
    lines = [
        head,
        '    """Collate the samples, and cut the padding behind the longest of them."""',
        f"    batch = {collated if kind in ('tensor', 'dict') else f'list({collated})'}",
        f"    given = {given}",
        f"    steps = {torch}.arange(1, given.shape[1] + 1, device=given.device)",
        "    longest = max(1, int((given * steps).max()))",
    ]
    if kind == "tensor":
        lines.append("    return batch[:, :longest].contiguous()")
        return "\n".join(lines)
    along = ", ".join(repr(each) for each in place["along"])
    lines += [
        f"    for each in ({along}{',' if len(place['along']) == 1 else ''}):",
        "        batch[each] = batch[each][:, :longest].contiguous()",
        f"    return {'tuple(batch)' if kind == 'tuple' else 'batch'}",
    ]
    return "\n".join(lines)
