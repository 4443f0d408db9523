"""Findings and trials side by side."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.compare.values import FindingChange, State, TrialChange
from trainperf.model import Diagnosis, Finding, by_fix

ORDER: tuple[State, ...] = ("new", "no longer ignored", "changed", "ignored", "gone", "still")

BOUND = 0.10
"""By how much of itself what a bound promises must change to be said: it is an upper bound."""


def findings(a: Diagnosis, b: Diagnosis) -> tuple[FindingChange, ...]:
    """Every finding of either, in the order of `ORDER`; what both ignore is none."""
    before, after = _by_id(a), _by_id(b)
    rows = [_finding(before.get(id_), after.get(id_)) for id_ in dict.fromkeys((*after, *before))]
    told = (row for row in rows if row is not None)
    return tuple(sorted(told, key=lambda row: ORDER.index(row.state)))


def trials(a: Diagnosis, b: Diagnosis) -> tuple[TrialChange, ...]:
    """The outcome of each fix that was tried, where both diagnoses tried some.

    The kept ones together stand last, as "all kept".
    """
    if not a.trials or not b.trials:
        return ()
    before, after = by_fix(a.trials), by_fix(b.trials)
    rows = [
        TrialChange(
            fix,
            str(before[fix].outcome) if fix in before else "",
            str(after[fix].outcome) if fix in after else "",
            before[fix].speedup if fix in before else None,
            after[fix].speedup if fix in after else None,
        )
        for fix in dict.fromkeys((*after, *before))
    ]
    if a.stack is not None or b.stack is not None:
        rows.append(
            TrialChange(
                "all kept",
                "" if a.stack is None else ", ".join(a.stack.fixes),
                "" if b.stack is None else ", ".join(b.stack.fixes),
                None if a.stack is None else a.stack.speedup,
                None if b.stack is None else b.stack.speedup,
            )
        )
    return tuple(rows)


@dataclass(frozen=True)
class _Seen:
    """A finding, and whether a comment in the source says to leave it out."""

    finding: Finding
    ignored: bool = False


def _by_id(diagnosis: Diagnosis) -> dict[str, _Seen]:
    ignored = {one.finding.id: _Seen(one.finding, ignored=True) for one in diagnosis.ignored}
    return ignored | {one.id: _Seen(one) for one in (*diagnosis.findings, *diagnosis.practices)}


def _finding(before: _Seen | None, after: _Seen | None) -> FindingChange | None:
    seen = after or before
    assert seen is not None
    state = _state(before, after)
    if state is None:
        return None
    bounds = (None if each is None else each.finding.bound for each in (before, after))
    return FindingChange(seen.finding.id, seen.finding.title, state, *bounds)


def _state(before: _Seen | None, after: _Seen | None) -> State | None:
    """The change of a finding; None where there is nothing to say of it."""
    if after is None:
        return None if before is None or before.ignored else "gone"
    if after.ignored:
        return None if before is not None and before.ignored else "ignored"
    if before is None:
        return "new"
    if before.ignored:
        return "no longer ignored"
    old, new = before.finding.bound, after.finding.bound
    changed = (old is None) != (new is None) or (old and new and _moved(old, new))
    return "changed" if changed else "still"


def _moved(old: float, new: float) -> bool:
    """Whether the time that a bound promises to save changed by more than bounds vary."""
    return abs((1 - 1 / new) - (1 - 1 / old)) > BOUND
