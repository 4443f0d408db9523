"""Findings and trials side by side."""

from __future__ import annotations

from trainperf.comparing.values import FindingChange, State, TrialChange
from trainperf.model import Diagnosis, Finding, by_fix

BOUND = 0.10
"""By how much of itself what a bound promises must change to be said: it is an upper bound."""


def findings(a: Diagnosis, b: Diagnosis) -> tuple[FindingChange, ...]:
    """Every finding of either: the new ones first, then the changed, the gone, the rest."""
    before = {one.id: one for one in (*a.findings, *a.practices)}
    after = {one.id: one for one in (*b.findings, *b.practices)}
    order: tuple[State, ...] = ("new", "changed", "gone", "still")
    rows = [_finding(before.get(id_), after.get(id_)) for id_ in dict.fromkeys((*after, *before))]
    return tuple(sorted(rows, key=lambda row: order.index(row.state)))


def trials(a: Diagnosis, b: Diagnosis) -> tuple[TrialChange, ...]:
    """What came of each fix that was tried, where both diagnoses tried some.

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


def _finding(before: Finding | None, after: Finding | None) -> FindingChange:
    one = after or before
    assert one is not None
    old, new = (None if each is None else each.bound for each in (before, after))
    state: State = "still"
    if before is None:
        state = "new"
    elif after is None:
        state = "gone"
    elif (old is None) != (new is None) or (old and new and _moved(old, new)):
        state = "changed"
    return FindingChange(one.id, one.title, state, old, new)


def _moved(old: float, new: float) -> bool:
    """Whether the time that a bound promises to save changed by more than bounds vary."""
    return abs((1 - 1 / new) - (1 - 1 / old)) > BOUND
