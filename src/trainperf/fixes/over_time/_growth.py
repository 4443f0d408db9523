"""The growth that a soak saw, in words, and evidence of it for the cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainperf.fixes.common.words import at, ms, percent, size
from trainperf.model import Evidence, Grown, MemoryGrowth, OverTime, Site
from trainperf.model import words as units

LATE: dict[str, Any] = {"late": True}
"""Data of a finding that no trial can show: trials compare the first steps."""

BASIS = "late steps as quick as early ones"
NO_SLOWER = "steps were not seen to be slower late in the run; what it takes is memory"


def hurts(evidence: Evidence) -> bool:
    """Whether late steps are slower, or each step adds memory."""
    seen = evidence.over_time
    return seen.slower or seen.memory is not None


def bound(evidence: Evidence) -> float | None:
    """What the late steps can gain at most, None where they are no slower."""
    seen = evidence.over_time
    return seen.ratio if seen.slower else None


def basis(evidence: Evidence) -> str:
    """Where that bound comes from."""
    return BASIS if evidence.over_time.slower else NO_SLOWER


def consequence(evidence: Evidence) -> str:
    """Say what the growth came with."""
    seen = evidence.over_time
    told = []
    if seen.slower:
        more = percent(seen.ratio - 1)
        told.append(f"late steps take {ms(seen.late_s)}, {more} more than early ones")
    if seen.memory is not None:
        told.append(f"each step adds {size(seen.memory.per_step)} of memory")
    text = ", and ".join(told)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def named(grown: Iterable[Grown]) -> str:
    """Say what grew and by how much, the quickest three."""
    return "; ".join(
        f"`{one.name}`{f' of `{one.cls}`' if one.cls else ''} went from {one.sizes[0][1]:,} to "
        f"{units.count(one.sizes[-1][1], UNITS[one.kind])} in "
        f"{units.count(one.sizes[-1][0] - one.sizes[0][0], 'step')}"
        for one in list(grown)[:3]
    )


UNITS = {"container": "item", "array": "element", "graph": "term"}


def sites(grown: Iterable[Grown]) -> tuple[Site, ...]:
    """The places in which it grows, each once."""
    return tuple(dict.fromkeys(one.where for one in grown if one.where is not None))


def title_at(name: str, where: tuple[Site, ...]) -> str:
    """A name, with its first place."""
    return f"`{name}` ({at(where[0])})" if where else f"`{name}`"


# ------------------------------------------------------------------------------ for cases

LIST = Grown(
    "container",
    "losses",
    ((40, 40), (240, 240), (640, 640), (1440, 1440)),
    item="Tensor",
    where=Site("train.py", 23, "main", col=8, end_line=23, end_col=27),
)
MEMORY = MemoryGrowth(200_000.0, 190_000.0, 210_000.0, 300_000_000)


def over_time(ratio: float = 1.0, **fields: Any) -> OverTime:
    """A soak whose late steps take `ratio` times as long, give or take 2 %."""
    fields.setdefault("soak", True)
    return OverTime(600.0, 6000, 0.1, 0.1 * ratio, ratio, ratio * 0.98, ratio * 1.02, **fields)
