"""A round of trials: each change alone, then what pays together, on the script as it stands.

Where the step waits for its input there are two: the input first, and then the step itself on top
of what was kept. No repair of a step shows behind an input that it waits for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from trainperf.fixes import by_id
from trainperf.model import Finding, Length, Outcome, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import WORTH
from trainperf.trial.fresh import Rest
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.outcome import Measured
from trainperf.trial.planning import GivenChanges, Plan, Subject, plan
from trainperf.trial.queue import Queue
from trainperf.trial.repeat import needed_s
from trainperf.trial.stack import Means, Stacked, both, stack
from trainperf.trial.variants import SortedOut, of_another, sort_out

ON_TOP = 10
"""So many pairs tell what one change gives on top of another."""


@dataclass(frozen=True)
class Came:
    """What came of a round.

    `found` are the trials of fixes by id, of several ways the best one, `others` those of the rest;
    `apart` those that make another experiment of the script and pay. `stacked` is what was kept,
    `choices` the ways that were chosen. Some came too `late`: there was no time for them. `skipped`
    are those that were left out, of all that was `planned`. It took so many `legs`, and slices of
    `compared_s` seconds. `step_on_top_s` is a step of the script as a first round left it.
    """

    found: Mapping[str, Trial] = field(default_factory=dict)
    others: tuple[Trial, ...] = ()
    apart: tuple[Trial, ...] = ()
    stacked: Stacked = field(default_factory=lambda: Stacked((), None))
    choices: Mapping[str, Finding] = field(default_factory=dict)
    late: bool = False
    skipped: tuple[Trial, ...] = ()
    planned: tuple[Candidate, ...] = ()
    legs: int = 0
    compared_s: float = 0.0
    step_on_top_s: float | None = None

    def then(self, later: Came) -> Came:
        """This and a later round, which was made on top of what this one kept."""
        beneath = self.stacked.fixes

        def on_top(trial: Trial) -> Trial:
            there = trial.speedup is not None and not trial.on_top
            return replace(trial, on_top=beneath) if there else trial

        return Came(
            found={**self.found, **{name: on_top(one) for name, one in later.found.items()}},
            others=(*self.others, *map(on_top, later.others)),
            apart=(*self.apart, *map(on_top, later.apart)),
            stacked=both(self.stacked, later.stacked),
            choices={**self.choices, **later.choices},
            late=self.late or later.late,
            skipped=(*self.skipped, *later.skipped),
            planned=(*self.planned, *later.planned),
            legs=self.legs + later.legs,
            compared_s=self.compared_s + later.compared_s,
            step_on_top_s=later.step_on_top_s,
        )


def in_rounds(
    engine: Queue,
    planned: Plan,
    subject: Subject,
    clock: Clock,
    late: Callable[[], str],
) -> Came:
    """Try what is planned: the input first where steps wait for it, the rest on top of that.

    `late` says why there was no time for one. Raises `LegFailed` if the script as it is cannot be
    run; `engine` measures it. Whatever else was started has ended when this returns.
    """
    length = subject.evidence.length_
    steps = length.steps if isinstance(length, Length) else None
    of_input = [one for one in planned.chosen if one.input and not one.apart]
    utilization = subject.evidence.known_utilization
    free = 1 / utilization if utilization else math.inf
    if subject.freed is None or not of_input:
        return _round(engine, planned, clock, late, steps, free)
    first = [one for one in planned.chosen if one in of_input or one is planned.chosen[0]]
    others = [one for one in planned.chosen if one not in first]
    came = _round(engine, replace(planned, chosen=tuple(first)), clock, late, steps, free)
    kept = came.stacked.fixes
    if not kept:
        rest = replace(planned, chosen=tuple(others))
        if others:
            again = _round(engine, rest, clock, late, steps)
            return replace(came.then(again), legs=again.legs, compared_s=again.compared_s)
        return came
    changes = planned.changes.choosing(came.choices)
    beneath = tuple(one for one in changes.findings if one.id in kept)
    known = {one.fixes[0] for one in first}
    assert came.stacked.ratio is not None
    faster = (came.stacked.holds, came.stacked.ratio.speedup)
    second = plan(subject.on_top_of(beneath, known, *faster), clock)
    changed = changes.join(kept)
    if not second.chosen or second.costs is None or isinstance(changed, str):
        return came.then(Came(skipped=second.skipped))
    base = engine.standing(changed.run)
    engine.close()
    assert planned.costs is not None
    costs = replace(second.costs, epoch_s=planned.costs.epoch_s)  # a cache is filled in a first one
    folder = engine.bench.folder / "on-top"
    bench = replace(engine.bench, run=changed.run, costs=costs, folder=folder)
    try:
        with Queue(bench, base=base) as queue:
            later = _round(queue, replace(second, costs=costs), clock, late, steps)
            later = replace(later, step_on_top_s=queue.baseline().step_s)
    except LegFailed as failed:
        over = clock.over() or isinstance(failed, OutOfTime)
        why = late() if over else f"with {', '.join(kept)} the script {failed}"
        trials = {one.fixes[0]: one.skipped(why) for one in second.chosen}
        later = Came(trials, planned=second.chosen, late=over)
    return came.then(replace(later, skipped=second.skipped))


def _round(
    engine: Queue,
    planned: Plan,
    clock: Clock,
    late: Callable[[], str],
    steps: int | None,
    free: float = math.inf,
) -> Came:
    """Try what is planned, each alone, and put together what pays.

    The training has so many `steps`, None if not known; with free input a step is so many times as
    fast. Raises `LegFailed`.
    """
    costs, ahead = planned.costs, Ahead(engine, planned, free)
    assert costs is not None
    measured = engine.compare(planned.chosen, clock, ahead.look)
    joined = [one for one in measured if one.candidate.pairs and not one.late]
    measured = [one for one in measured if not one.candidate.pairs]
    sorted_out = sort_out(measured, engine.baseline, late(), steps)
    found, changes = dict(sorted_out.best), planned.changes.choosing(sorted_out.choices)
    partners = _partners(sorted_out)

    def means(holds: Epoch | None) -> Means:
        def join(ids: Sequence[str]) -> Candidate | str:
            made = changes.join(ids)
            return made if isinstance(made, str) else replace(made, holds=holds)

        given = isinstance(changes, GivenChanges)
        repeating_s = 0.0 if given else needed_s(costs.holding(holds))
        compare = partial(ahead.compare, joined)
        return Means(holds, engine.baseline(holds), join, compare, clock.keeping(repeating_s))

    stacked = stack(sorted_out.winners, means, partners)
    for name, drop in stacked.dropped.items():
        found[name] = found[name].dropped(drop.outcome, drop.reason)
    for name in set(partners) & set(stacked.fixes):
        beneath = stacked.fixes[: stacked.fixes.index(name)]
        found[name] = replace(
            found[name].dropped(Outcome.KEPT, ""),
            kept=True,
            on_top=beneath,
            **asdict(stacked.gains[name]),
        )
    apart = tuple(of_another(found.values(), measured, engine.baseline))
    too_late = any(one.late for one in measured)
    return Came(
        found,
        sorted_out.others,
        apart,
        stacked,
        sorted_out.choices,
        too_late,
        planned=planned.chosen,
        legs=engine.legs,
        compared_s=engine.compared_s,
    )


def _partners(sorted_out: SortedOut) -> list[str]:
    """The fixes that gave nothing alone, and may on top of one that was kept."""
    kept = {one.candidate.fixes[0] for one in sorted_out.winners}
    nothing = (Outcome.NO_EFFECT, Outcome.SLOWER)
    tried = (name for name, one in sorted_out.best.items() if one.outcome in nothing)
    fixes = by_id()
    return [name for name in tried if name in fixes and kept & {*fixes[name].pays_with}]


@dataclass(frozen=True)
class Ahead:
    """Puts winners together while others are still tried, and keeps time for what comes after.

    What is measured then takes the place of the last stacks. A step with `free` input is so many
    times as fast: no changes of the input give more together.
    """

    engine: Queue
    planned: Plan
    free: float = math.inf

    def look(self, measured: Sequence[Measured], candidates: Sequence[Candidate]) -> Rest:
        """Keep time to measure the winners together, where they are not, and once more.

        All that pays in slices of one kind is tried together once each way to make it is decided.
        Changes of the input are needless where another gives what free input would.
        """
        costs = self.planned.costs
        assert costs is not None
        compared = [one for one in measured if one.ratio is not None]
        alone = [one for one in compared if not one.candidate.pairs]
        sorted_out = sort_out(alone, self.engine.baseline, "") if alone else None
        if sorted_out is None or not sorted_out.winners:
            return Rest(needed_s(costs))
        best = sorted_out.winners[0]
        costs = costs.holding(best.holds)
        known = max(
            (len(one.candidate.fixes) for one in compared if one.candidate.pairs), default=1
        )
        stacks = max(0, len(sorted_out.winners) - known) + len(_partners(sorted_out))
        keep_s = needed_s(costs) + costs.starting(stacks) + costs.comparing(stacks)
        enough = (1 + WORTH) * (best.ratio.speedup if best.ratio is not None else math.inf)
        needless = {}
        for one in candidates if best.candidate.input else ():
            if not one.input or one.most is None or one.epoch or one.holds != best.holds:
                continue
            if one.fixes == best.candidate.fixes:
                if one.hope < enough:
                    needless[one.name] = f"{best.name} gives as much as it could"
            elif self.free < enough:
                needless[one.name] = f"{best.name} gives all that a faster input can"
        return Rest(keep_s, self._together(sorted_out, alone), needless)

    def _together(self, sorted_out: SortedOut, alone: Sequence[Measured]) -> Sequence[Candidate]:
        if isinstance(self.planned.changes, GivenChanges):
            return ()
        ways = Counter(one.fixes[0] for one in self.planned.chosen)
        ways.subtract(one.candidate.fixes[0] for one in alone)
        winners = [one for one in sorted_out.winners if not ways[one.candidate.fixes[0]]]
        winners = [one for one in winners if one.holds == winners[0].holds]
        if len(winners) < 2:
            return ()
        changes = self.planned.changes.choosing(sorted_out.choices)
        made = changes.join([one.candidate.fixes[0] for one in winners])
        if isinstance(made, str):
            return ()
        gains = [one.ratio.speedup for one in winners if one.ratio is not None]
        share, holds = winners[0].candidate.share, winners[0].holds
        return (replace(made, hope=math.prod(gains), share=share, holds=holds, pairs=ON_TOP),)

    def compare(
        self, known: Sequence[Measured], stacks: Sequence[Candidate], clock: Clock
    ) -> list[Measured]:
        """Measure stacks, those that are not among the `known`."""
        of_run = [(one.candidate.run, one.holds) for one in known]
        found = {
            stack.name: replace(known[of_run.index((stack.run, stack.holds))], candidate=stack)
            for stack in stacks
            if (stack.run, stack.holds) in of_run
        }
        left = [replace(one, pairs=ON_TOP) for one in stacks if one.name not in found]
        found |= {one.name: one for one in (self.engine.compare(left, clock) if left else ())}
        return [found[stack.name] for stack in stacks]
