"""Which fixes can be tried, and the very source that each trial runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from trainperf.changes import laid_over
from trainperf.fixes import Fix, by_id
from trainperf.fixes.findings import in_the_loop
from trainperf.model import Equivalence, Evidence, Finding, Outcome, Patch, Run, Trial
from trainperf.patch.patch import Edits, Written
from trainperf.recording.run import Epoch

BETWEEN = "what it saves lies between epochs, and trials compare steps"
OUTSIDE = "what it saves lies outside the training steps, and trials compare steps"
NO_EDIT = "no edit can be written for it: it takes a decision, see its advice"

SMALLEST_GAIN = 0.02
"""A gain below this is not worth an edit, however sure it is."""


@dataclass(frozen=True)
class Candidate:
    """A fix, or several together, to be tried: `run` is the script with their edits.

    Of a fix that can be made in several ways (so many workers), `variant` says which, and `finding`
    is the finding with that choice; both are empty for all else. One with an `epoch` saves between
    epochs, and shows in slices of whole ones only, or in part in others if `in_steps`. The slices
    that are compared hold what `holds` says, None: steps. One that changes the `input` may have
    batches ready before an epoch's first step. One that `compiles` has as long to start as the
    budget lets it. One that stands `apart` changes the experiment: it is tried last, and goes into
    no patch. `bound` is what it was predicted to give, `most` what noise allows besides. Its step
    does `work` times what the unchanged script's does. `hope` is the speed-up that it may give,
    `share` the part of the whole training that this shortens. With a `difference`, as a share, it
    is tried in two processes until it is known to be faster or slower by that, or neither. It has
    so many `pairs` at least.
    """

    fixes: tuple[str, ...]
    run: Run
    equivalence: Equivalence
    bound: float | None
    warm_up_epochs: int
    variant: str = ""
    finding: Finding | None = None
    epoch: Epoch | None = None
    in_steps: bool = False
    holds: Epoch | None = None
    input: bool = False
    compiles: bool = False
    apart: bool = False
    work: float = 1.0
    hope: float = 1.25
    share: float = 1.0
    difference: float | None = None
    most: float | None = None
    pairs: int = 0

    @property
    def name(self) -> str:
        """The fixes' ids, as one word, with the variant."""
        ids = "+".join(self.fixes)
        return f"{ids} ({self.variant})" if self.variant else ids

    def saves(self, speedup: float) -> float:
        """The share of the whole training that a speed-up saves."""
        return self.share * (1 - 1 / max(1.0, speedup))

    def skipped(self, reason: str, late: bool = False) -> Trial:
        """It, as one that is not tried; `late`: for want of time."""
        bound = None if self.bound is None else self.most or self.bound
        name, variant = "+".join(self.fixes), self.variant
        return Trial(name, Outcome.NOT_TRIED, reason, bound=bound, variant=variant, late=late)


def candidates(changes: Changes, semantic: bool = False) -> tuple[list[Candidate], list[Trial]]:
    """The fixes that can be tried, and the others, with the reason.

    Each variant of a fix is a candidate. What changes the experiment stands apart, unless
    `semantic`.
    """
    chosen, skipped = list[Candidate](), list[Trial]()
    first = dict[str, Finding]()
    for finding in changes.findings:
        first.setdefault(finding.id, finding)
    for finding in first.values():
        if finding.id in changes.beneath:
            continue
        reason, there = "", len(chosen)
        epoch = finding.slices if isinstance(finding.slices, Epoch) else None
        between = finding.id in changes.fixes and changes.fixes[finding.id].between_epochs
        if not finding.rewritable:
            reason = NO_EDIT
        elif between and epoch is None:
            reason = BETWEEN
        elif finding.slices == "none":
            reason = OUTSIDE
        for variant, way in variants(finding) if not reason else ():
            made = changes.choosing({finding.id: way}).join((finding.id,))
            if isinstance(made, str):
                reason = reason or made
                continue
            candidate = replace(
                made,
                variant=variant,
                finding=way if variant else None,
                epoch=epoch,
                in_steps=not between,
                input=finding.category == "input",
                apart=finding.equivalence is Equivalence.SEMANTICS and not semantic,
            )
            chosen.append(candidate)
        if len(chosen) == there:
            skipped.append(Trial(finding.id, Outcome.NOT_TRIED, reason, bound=finding.most))
    return chosen, skipped


def decided_in_the_loop(
    chosen: Sequence[Candidate], findings: Sequence[Finding], evidence: Evidence
) -> tuple[list[Candidate], list[Trial]]:
    """The candidates to be tried, and the trials of those that gained nothing in the loop.

    A change whose very step a probe ran, with all of its interval below the smallest gain worth
    making, is measured. One that may pay on top of another that is tried is tried as well.
    """
    of_fix = {finding.id: finding for finding in reversed(findings)}
    decided = dict[str, Trial]()
    for candidate in chosen:
        finding = candidate.finding or of_fix[candidate.fixes[0]]
        found = None if candidate.epoch else in_the_loop(finding, evidence)
        if found is not None and found.high < 1 + SMALLEST_GAIN:
            slower = found.high < 1 / (1 + SMALLEST_GAIN)
            decided[candidate.name] = replace(
                candidate.skipped(""),
                outcome=Outcome.SLOWER if slower else Outcome.NO_EFFECT,
                **asdict(found),
                note="in the loop",
                basis="in the loop",
            )
    tried = {candidate.fixes[0] for candidate in chosen if candidate.name not in decided}
    for candidate in chosen:
        if tried.intersection(by_id()[candidate.fixes[0]].pays_with):
            decided.pop(candidate.name, None)
    left = [candidate for candidate in chosen if candidate.name not in decided]
    return left, list(decided.values())


def variants(finding: Finding) -> list[tuple[str, Finding]]:
    """The ways in which a fix can be made, each with its name and its finding.

    Most findings have one way, without a name. One that has steps hold more samples has no bound
    of its own: that of the finding was not made for it.
    """
    if len(finding.variants) < 2:
        return [("", finding)]
    return [
        (
            variant.name,
            replace(
                finding,
                data={**finding.data, **variant.data},
                samples_per_step=variant.samples_per_step,
                bound=finding.bound if variant.samples_per_step == 1 else None,
                at_best=finding.most,
            ),
        )
        for variant in finding.variants
    ]


def loosest(kinds: Iterable[Equivalence]) -> Equivalence:
    """The equivalence of the change that changes most."""
    kind = Equivalence
    order = [kind.SEMANTICS, kind.NUMERICS, kind.EXACT, kind.ENVIRONMENT]
    return min(kinds, key=order.index, default=kind.EXACT)


@dataclass(frozen=True)
class Changes:
    """Makes the changes of some fixes together, on the leg that runs with them.

    All of them are made on top of those `beneath`.
    """

    run: Run
    findings: tuple[Finding, ...]
    edits: Edits
    beneath: tuple[str, ...] = ()
    fixes: Mapping[str, Fix] = field(default_factory=by_id)

    def write(self, ids: Sequence[str]) -> Written:
        """Write the edits of the fixes with some ids."""
        return self.edits.write(self.findings, ids)

    def choosing(self, chosen: Mapping[str, Finding]) -> Changes:
        """The same with these findings, by id, in place of those that offered a choice."""
        findings = tuple(chosen.get(finding.id, finding) for finding in self.findings)
        return replace(self, findings=findings)

    def join(self, ids: Sequence[str]) -> Candidate | str:
        """The candidate with the edits of all `ids`, or why there is none."""
        all_ids = (*self.beneath, *ids)
        written = self.write(all_ids)
        patch = written.patch
        reason = "; ".join(left.reason for left in patch.skipped[:1])
        if not (reason or written.contents or patch.environment or patch.arguments):
            reason = "its edit changes nothing"
        if reason:
            together = self.beneath and not self.write(ids).patch.skipped
            beneath = ", ".join(self.beneath)
            return f"does not go together with {beneath}: {reason}" if together else reason
        named = [finding for finding in self.findings if finding.id in all_ids]
        own = [finding for finding in named if finding.id in ids]
        fixes = [self.fixes[name] for name in all_ids if name in self.fixes]
        epochs = max((fix.warm_up_epochs for fix in fixes), default=0)
        run = replace(
            self.run,
            command=(*self.run.command, *patch.arguments),
            sources=dict(written.contents),
            env={**self.run.env, **patch.environment},
            leg=None if self.run.leg is None else replace(self.run.leg, warm_up_epochs=epochs),
        )
        return Candidate(
            fixes=tuple(ids),
            run=run,
            equivalence=loosest(finding.equivalence for finding in named),
            bound=own[0].bound if len(ids) == 1 else None,
            most=own[0].most if len(ids) == 1 else None,
            warm_up_epochs=epochs,
            compiles=any(fix.compiles for fix in fixes),
            work=math.prod(finding.samples_per_step for finding in own),
        )


@dataclass(frozen=True)
class GivenChanges(Changes):
    """Changes that were given as runs: they are laid over the leg, and over each other."""

    changes: tuple[Candidate, ...] = ()

    def write(self, ids: Sequence[str]) -> Written:
        """Write no patch: whoever gave the changes has them."""
        return Written(Patch("", tuple(ids)), {})

    def join(self, ids: Sequence[str]) -> Candidate | str:
        """The candidate of these changes, or at what they meet."""
        chosen = [change for change in self.changes if change.name in ids]
        run = self.run
        for change in chosen:
            laid = laid_over(run, change.run, self.run)
            if isinstance(laid, str):
                return laid
            run = laid
        return replace(
            chosen[0],
            fixes=tuple(ids),
            run=run,
            equivalence=loosest(change.equivalence for change in chosen),
            work=math.prod(change.work for change in chosen),
        )
