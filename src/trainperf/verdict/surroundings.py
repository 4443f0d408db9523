"""Verdicts on what lies outside the script: storage, a CPU quota, a GPU that is held back."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import by_id, concern
from trainperf.fixes.common.words import ms, percent, times
from trainperf.fixes.host._quota import throttled_share
from trainperf.model import Bottleneck, Evidence, Finding

MOST = 0.5
"""The share of the waiting that storage must take to be called its cause."""

ALIKE = 0.9
"""Bounds that differ by less than the noise of a step are as good as equal."""

OFTEN = 0.5
"""The share of its periods in which a CPU quota must have been used up to be in the verdict."""


def storage_bound(
    evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[Bottleneck, str] | None:
    """The step waits for its input, and most of that is files or objects on their way.

    None where no finding measured that, or other work takes more of the waiting.
    """
    known = [one for one in findings if one.category == "storage" and "waits_s" in one.data]
    found = max(known, key=lambda one: float(one.data["waits_s"]), default=None)
    if found is None:
        return None
    real, resident = evidence.times.real, evidence.times.resident
    probed = float(found.data["waits_s"])
    most = float(found.data.get("waits_most_s", probed))
    waiting = real - resident
    seconds = min(most, waiting)
    if seconds < MOST * waiting:
        return None
    verb = "goes into" if evidence.loop.kind == "call" else "waits for"
    return "storage", (
        f"Storage-bound: the step could run {times(real / resident)} as fast if data were free; "
        f"{percent(1 - resident / real)} of each step {verb} data, "
        f"{'up to ' if most > min(probed, waiting) else ''}{ms(seconds)} of its "
        f"{ms(real)} for {found.data['waits_for']}."
    )


def held_back(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Bottleneck, str] | None:
    """The machine, as it is set up, is what a step loses most to."""
    first = findings[0] if findings else None
    if first is None or first.category != "environment" or first.bound is None:
        return None
    # A quota is the cause where threads that are too many for it promise the same.
    quota = next((one for one in findings if concern(one) == "quota"), None)
    if quota is not None and quota.bound is not None and quota.bound >= ALIKE * first.bound:
        first = quota
    return "environment", (
        f"{first.title}: each step takes {ms(evidence.times.real)}, and could run up to "
        f"{times(first.bound or 1.0)} as fast.{_stops(evidence) if first is quota else ''}"
    )


def counted(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Bottleneck, str] | None:
    """The limit that the kernel's or the driver's own counts show, whatever times say."""
    fix = by_id().get(findings[0].id) if findings else None
    return held_back(evidence, findings) if fix is not None and fix.counted else None


def also_stopped(evidence: Evidence, findings: tuple[Finding, ...]) -> str:
    """A sentence on a CPU quota that was used up most of the time; "" where it was not."""
    known = any(concern(one) == "quota" for one in findings)
    return _stops(evidence) if known else ""


def _stops(evidence: Evidence) -> str:
    try:
        share = throttled_share(evidence)
    except NotMeasured:
        return ""
    if share < OFTEN or evidence.container is None:
        return ""
    quota = evidence.container.quota_cores or 0.0
    return (
        f" The CPU quota of {quota:g} core{'' if quota == 1 else 's'} was used up in "
        f"{percent(share)} of its periods."
    )
