"""Late steps of a long run against early ones, and what grew between them."""

from __future__ import annotations

from trainperf.fixes.common.words import at
from trainperf.model import Diagnosis, Grown, MemoryGrowth, OverTime
from trainperf.model import words as units
from trainperf.report.document import GOOD, WARN, Page, say

WIDTH = 8
SOAK = "`--soak 10m` says what grows meanwhile."


def over_time(diagnosis: Diagnosis, page: Page) -> None:
    """Print how late steps compare with early ones: after a soak, and where they are slower."""
    seen = diagnosis.over_time
    if seen is None or not (seen.soak or seen.slower):
        return
    lasted = f"{units.clock(seen.seconds)}, {units.count(seen.steps, 'step')}"
    page.heading(f"Over time (one run: {lasted})")
    page.fact("steps", say(pace(seen), WARN if seen.slower else GOOD), WIDTH)
    if seen.batch_ratio is not None:
        text = f"late ones have {units.number(seen.batch_ratio)} times the bytes of early ones"
        page.fact("input", say(text), WIDTH)
    if not seen.soak:
        page.prose(SOAK, indent=2)
        return
    text = "no steady growth" if seen.memory is None else gained(seen.memory)
    page.fact("memory", say(text, GOOD if seen.memory is None else WARN), WIDTH)
    hurts = seen.slower or seen.memory is not None
    for one in seen.grown:
        if hurts or one.holds_graph or one.kind in ("files", "framework"):
            page.item(growth(one))
    if seen.slower and not seen.grown:
        page.prose("Nothing that the script holds by a name was seen to grow.", indent=2)


def pace(seen: OverTime) -> str:
    """Say how long late steps take against early ones, and what else may be the reason."""
    taken = f"late {units.seconds(seen.late_s)}, early {units.seconds(seen.early_s)}"
    text = f"{taken}: {units.measured(seen.ratio, seen.low, seen.high)} as long"
    if seen.disturbed:
        return f"{text}; neighbours took more of the cores late in it"
    return text


def gained(memory: MemoryGrowth) -> str:
    """Say what each step adds to the memory."""
    low, high = units.size(memory.low), units.size(memory.high)
    each = f"{units.size(memory.per_step)} more with each step ({low} to {high})"
    return f"{each}, {units.size(memory.gained)} in the last two thirds"


def growth(one: Grown) -> str:
    """Say what grew, where, and by how much."""
    place = f" ({at(one.where)})" if one.where is not None else ""
    name = f"`{one.name}`" if one.kind in ("container", "array", "graph") else one.name
    of = f" of `{one.cls}`" if one.cls else ""
    (first, before), (last, after) = one.sizes[0], one.sizes[-1]
    return f"{name}{of}{place}: {before:,} after {first:,} steps, {after:,} after {last:,}"
