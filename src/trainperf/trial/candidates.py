"""Which fixes can be tried, and the very source that each trial runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, Run
from trainperf.rewrite import Written, default_reader, write_edits

SEMANTIC = "it changes the experiment; --allow-semantic tries it"
NO_EDIT = "no edit can be written for it: it takes a decision, see its advice"

Write = Callable[[Sequence[str]], Written]
"""Writes the edits of the fixes with these ids, together."""


@dataclass(frozen=True)
class Candidate:
    """A fix, or several together, to be tried: `run` is the script with their edits."""

    fixes: tuple[str, ...]
    run: Run
    equivalence: Equivalence
    bound: float | None
    warm_up_epochs: int

    @property
    def name(self) -> str:
        """The fixes' ids, as one word."""
        return "+".join(self.fixes)


@dataclass(frozen=True)
class Skipped:
    """A fix that is not tried, and why."""

    fix: str
    reason: str
    bound: float | None


def writer(
    root: str, findings: Sequence[Finding], fixes: Mapping[str, Fix], semantic: bool
) -> Write:
    """Return what writes the edits of some of the findings, by their ids.

    Each file is read once, so that all trials and the patch start from the same bytes.
    """
    read = cache(default_reader)

    def write(ids: Sequence[str]) -> Written:
        return write_edits(root, findings, fixes, read, only=tuple(ids), allow_semantic=semantic)

    return write


def candidates(
    run: Run,
    findings: Sequence[Finding],
    fixes: Mapping[str, Fix],
    write: Write,
    semantic: bool = False,
) -> tuple[list[Candidate], list[Skipped]]:
    """The fixes that can be tried, the largest upper bound first, and the others.

    `run` is the leg of the unchanged script. Fixes without a bound come last.
    """
    chosen, skipped = [], []
    first: dict[str, Finding] = {}
    for one in findings:
        first.setdefault(one.id, one)
    for finding in first.values():
        reason = ""
        if not finding.rewritable:
            reason = NO_EDIT
        elif finding.equivalence is Equivalence.SEMANTICS and not semantic:
            reason = SEMANTIC
        made = None if reason else together(run, (finding.id,), findings, fixes, write)
        if isinstance(made, Candidate):
            chosen.append(made)
        else:
            skipped.append(Skipped(finding.id, reason or str(made), finding.bound))
    chosen.sort(key=lambda made: -(made.bound or 0.0))
    return chosen, skipped


def together(
    run: Run,
    ids: Sequence[str],
    findings: Sequence[Finding],
    fixes: Mapping[str, Fix],
    write: Write,
) -> Candidate | str:
    """The candidate that holds the edits of all `ids`, or why there is none."""
    written = write(ids)
    for left in written.patch.skipped:
        return left.reason
    if not written.contents and not written.patch.environment:
        return "its edit changes nothing"
    changed = replace(
        run, sources=dict(written.contents), env={**run.env, **written.patch.environment}
    )
    named = [one for one in findings if one.id in ids]
    bounds = [one.bound for one in named]
    return Candidate(
        fixes=tuple(ids),
        run=changed,
        equivalence=loosest(one.equivalence for one in named),
        bound=bounds[0] if len(ids) == 1 else None,
        warm_up_epochs=max((fixes[one].warm_up_epochs for one in ids if one in fixes), default=0),
    )


def loosest(kinds: Iterable[Equivalence]) -> Equivalence:
    """What changes most among some changes."""
    order = (
        Equivalence.SEMANTICS,
        Equivalence.NUMERICS,
        Equivalence.EXACT,
        Equivalence.ENVIRONMENT,
    )
    found = set(kinds)
    return next((kind for kind in order if kind in found), Equivalence.EXACT)
