"""How items get at their data, and what another way could save."""

from __future__ import annotations

from collections.abc import Collection

from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.words import worth
from trainperf.fixes.dataloader._loader import ITEM, stage_seconds
from trainperf.model import Access, Evidence

REPEATED = 0.5
"""Share of the calls given a file that others were given, from which items share their files."""


def dearest(
    evidence: Evidence, names: Collection[str], *, cold: bool = False
) -> tuple[Access, float] | None:
    """Return the access of such a name that items spend most on, and what saving it gives at most.

    That is what it takes itself, or all that items take where what follows it is slower for it
    (`cold`). None where the loop does not wait for its items, each has a file of its own, or such
    accesses are a small part of what it waits for. Raises `NotMeasured`.
    """
    accesses = evidence.torch.loader.accesses
    found = [one for one in accesses if one.name in names and one.repeated >= REPEATED]
    if not found or not evidence.input_bound:
        return None
    access = max(found, key=lambda one: one.share)
    items = stage_seconds(evidence).get(ITEM, 0.0) / max(pipeline_seconds(evidence), 1e-9)
    if min(1.0, items) * access.share < REAL_SHARE:
        return None
    share = min(1.0, items) * (1.0 if cold else access.share)
    bound = evidence.bound_if_input_saves(evidence.times.input * share)
    return (access, bound) if worth(evidence, bound) else None
