"""A round of trials: each change alone, then what pays together, on the script as it stands.

Where the step waits for its input there are two: the input first, and then the step itself on top
of what was kept. No repair of a step shows behind an input that it waits for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from trainperf.fixes import by_id
from trainperf.model import Finding, Length, Outcome, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Clock, Costs
from trainperf.trial.candidates import Candidate, GivenChanges
from trainperf.trial.contest import WORTH
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.outcome import Baseline, Measured, floor, trial
from trainperf.trial.parity import Losses
from trainperf.trial.planning import Plan, Subject, plan
from trainperf.trial.queue import Queue
from trainperf.trial.repeat import needed_s
from trainperf.trial.stack import Means, Stacked, stack

PAYS = (Outcome.KEPT, Outcome.CHANGES, Outcome.LOSSES_DIFFER)
"""Outcomes of what may be written: in the patch, or by its name."""

BaselineOf = Callable[[Epoch | None], Baseline]
"""The unchanged script as measured in slices that hold such epochs, or steps."""

APART = "in no patch, as it changes the experiment: `trainperf fix --only {}` makes it"
AS_GOOD = 1.03
"""Of two ways to make another experiment, one that is at most so much better is not looked for."""
ON_TOP = 10
"""So many pairs tell what one change gives on top of another."""


@dataclass(frozen=True)
class Round:
    """What came of a round.

    `found` are the trials of fixes by id, of several ways the best one, `others` those of the rest;
    `apart` those that make another experiment of the script and pay. `winners` are the kept ones as
    they go on the stack, the best first: that with which the whole training takes least, what it
    costs once counted. `choices` are the findings with the way that is the best, `stacked` is what
    was kept of all. Some came too `late`: there was no time for them. `skipped` are those that were
    left out, of all that was `planned`. One on top of another took so many `legs`, slices of
    `compared_s` seconds, and a step `step_on_top_s`.
    """

    found: Mapping[str, Trial] = field(default_factory=dict)
    others: tuple[Trial, ...] = ()
    apart: tuple[Trial, ...] = ()
    winners: tuple[Measured, ...] = ()
    choices: Mapping[str, Finding] = field(default_factory=dict)
    stacked: Stacked = field(default_factory=lambda: Stacked((), None))
    late: bool = False
    skipped: tuple[Trial, ...] = ()
    planned: tuple[Candidate, ...] = ()
    legs: int = 0
    compared_s: float = 0.0
    step_on_top_s: float | None = None

    def then(self, later: Round) -> Round:
        """This and a later round, which was made on top of what this one kept."""

        def on_top(trial: Trial) -> Trial:
            there = trial.speedup is not None and not trial.on_top
            return replace(trial, on_top=self.stacked.fixes) if there else trial

        return replace(
            later,
            found={**self.found, **{name: on_top(one) for name, one in later.found.items()}},
            others=(*self.others, *map(on_top, later.others)),
            apart=(*self.apart, *map(on_top, later.apart)),
            stacked=self.stacked.then(later.stacked),
            choices={**self.choices, **later.choices},
            late=self.late or later.late,
            planned=(*self.planned, *later.planned),
        )


def in_rounds(
    engine: Queue,
    planned: Plan,
    subject: Subject,
    clock: Clock,
    late: Callable[[], str],
) -> Round:
    """Try what is planned: the input first where steps wait for it, the rest on top of that.

    `late` says why there was no time for one. Raises `LegFailed` if the script as it is cannot be
    run; `engine` measures it. Whatever else was started has ended when this returns.
    """
    length, utilization = subject.evidence.length_, subject.evidence.known_utilization
    steps = length.steps if isinstance(length, Length) else None
    free = 1 / utilization if utilization else math.inf
    chosen = planned.chosen
    of_input = [candidate for candidate in chosen if candidate.input and not candidate.apart]
    if subject.freed is None or not of_input:
        return _round(engine, planned, clock, late, steps, free)
    first = tuple(one for one in chosen if one in of_input or one is chosen[0])
    others = tuple(one for one in chosen if one not in first)
    came = _round(engine, replace(planned, chosen=first), clock, late, steps, free)
    kept = came.stacked.fixes
    if not kept:
        rest = replace(planned, chosen=others)
        return came.then(_round(engine, rest, clock, late, steps)) if others else came
    changes = planned.changes.choosing(came.choices)
    beneath = tuple(finding for finding in changes.findings if finding.id in kept)
    second = plan(subject.on_top_of(beneath, {one.fixes[0] for one in first}), clock)
    changed = changes.join(kept)
    if not second.chosen or second.costs is None or isinstance(changed, str):
        return came.then(Round(skipped=second.skipped))
    engine.close()
    assert planned.costs is not None
    costs = replace(second.costs, epoch_s=planned.costs.epoch_s)  # a cache is filled in a first one
    bench = replace(
        engine.bench, run=changed.run, costs=costs, folder=engine.bench.folder / "on-top"
    )
    try:
        with Queue(bench) as queue:
            later = _round(queue, replace(second, costs=costs), clock, late, steps)
            step_s = queue.baseline().step_s
            legs, compared_s = queue.legs, queue.compared_s
            later = replace(later, step_on_top_s=step_s, legs=legs, compared_s=compared_s)
    except LegFailed as failed:
        over = clock.over() or isinstance(failed, OutOfTime)
        why = late() if over else f"with {', '.join(kept)} the script {failed}"
        trials = {candidate.fixes[0]: candidate.skipped(why, over) for candidate in second.chosen}
        later = Round(trials, planned=second.chosen, late=over)
    return came.then(replace(later, skipped=second.skipped))


def _round(
    engine: Queue,
    planned: Plan,
    clock: Clock,
    late: Callable[[], str],
    steps: int | None,
    free: float = math.inf,
) -> Round:
    """Try what is planned, each alone, and put together what pays.

    The training has so many `steps`, None if not known; with free input a step is so many times as
    fast. Raises `LegFailed`.
    """
    costs = planned.costs
    assert costs is not None
    measured = engine.compare(planned.chosen, clock, partial(_rest, engine, costs, free))
    came = sort_out(measured, engine.baseline, late(), steps)
    found, changes = dict(came.found), planned.changes.choosing(came.choices)
    partners = _partners(came)

    def means(holds: Epoch | None) -> Means:
        def join(ids: Sequence[str]) -> Candidate | str:
            made = changes.join(ids)
            return made if isinstance(made, str) else replace(made, holds=holds, pairs=ON_TOP)

        repeating_s = 0.0 if isinstance(changes, GivenChanges) else needed_s(costs.holding(holds))
        until = clock.keeping(repeating_s)
        return Means(holds, engine.baseline(holds), join, engine.compare, until)

    stacked = stack(came.winners, means, partners)
    for name, drop in stacked.dropped.items():
        found[name] = found[name].dropped(*drop)
    for name in set(partners) & set(stacked.fixes):
        found[name] = replace(
            found[name].dropped(Outcome.KEPT, ""),
            kept=True,
            on_top=stacked.fixes[: stacked.fixes.index(name)],
            **asdict(stacked.gains[name]),
        )
    late_ones = any(one.late for one in measured)
    return replace(came, found=found, stacked=stacked, late=late_ones, planned=planned.chosen)


def _partners(came: Round) -> list[str]:
    """The fixes that gave nothing alone, and may on top of one that was kept."""
    kept = {winner.candidate.fixes[0] for winner in came.winners}
    nothing = (Outcome.NO_EFFECT, Outcome.SLOWER)
    tried = (name for name, trial in came.found.items() if trial.outcome in nothing)
    fixes = by_id()
    return [name for name in tried if name in fixes and kept & {*fixes[name].pays_with}]


def _rest(
    engine: Queue,
    costs: Costs,
    free: float,
    measured: Sequence[Measured],
    candidates: Sequence[Candidate],
) -> tuple[float, Mapping[str, str]]:
    """Keep time to measure the winners together, and once more.

    A step with `free` input is so many times as fast: changes of the input are needless where
    another gives what that would.
    """
    came = sort_out([one for one in measured if one.ratio is not None], engine.baseline, "")
    if not came.winners:
        return needed_s(costs), {}
    best = came.winners[0]
    costs = costs.holding(best.holds)
    stacks = len(came.winners) - 1 + len(_partners(came))
    keep_s = needed_s(costs) + costs.starting(stacks) + costs.comparing(stacks)
    enough = (1 + WORTH) * (best.ratio.speedup if best.ratio is not None else math.inf)
    needless = {}
    for one in candidates if best.candidate.input else ():
        another_way = one.fixes == best.candidate.fixes
        alike = one.input and one.most is not None and not one.epoch and one.holds == best.holds
        if alike and (one.hope if another_way else free) < enough:
            gives = "as much as it could" if another_way else "all that a faster input can"
            needless[one.name] = f"{best.name} gives {gives}"
    return keep_s, needless


# ------------------------------------------------------------------------- trials sorted out


def sort_out(
    measured: Sequence[Measured],
    baseline_of: BaselineOf,
    why_late: str,
    steps: int | None = None,
) -> Round:
    """Judge each candidate, and of the variants of a fix choose the best that is kept.

    That is the fastest. Where the length of the whole training is known, `steps`, it is the one
    with which that takes least, and what costs more once than it saves there is not kept.
    """
    ways = defaultdict[str, list[_Way]](list)
    for one in measured:
        way = _way(one, baseline_of(one.holds), why_late, steps)
        ways[way.found.fix].append(way)
    best, others = dict[str, _Way](), list[Trial]()
    for fix, alike in ways.items():
        first, *rest = alike
        for way in rest:
            first = way if way.beats(first) else first
        best[fix] = first
        others += [_beaten(way, first) for way in alike if way is not first]
    kept = [way for way in best.values() if way.found.kept]
    if len({way.measured.holds for way in kept}) < 2:  # what takes least comes first
        kept.sort(key=lambda way: (way.whole_s, -way.speedup))
    else:  # what saves most
        kept.sort(key=lambda way: -way.measured.candidate.saves(way.speedup))
    return Round(
        found={fix: way.found for fix, way in best.items()},
        others=tuple(others),
        apart=tuple(way.found for way in best.values() if way.another),
        winners=tuple(way.measured for way in kept),
        choices={
            fix: way.measured.candidate.finding
            for fix, way in best.items()
            if way.measured.candidate.finding is not None and way.found.outcome in PAYS
        },
    )


@dataclass(frozen=True)
class _Way:
    """A way to make a fix: its trial, and seconds of the whole training with it, 0 if not known.

    It makes `another` experiment that pays by what it is, or as it was to keep the numbers and
    trained otherwise. Where losses are no numbers any more nothing is trained.
    """

    found: Trial
    measured: Measured
    whole_s: float
    another: bool

    @property
    def speedup(self) -> float:
        """What it gives, 0 if that is not known."""
        return self.found.speedup or 0.0

    def beats(self, before: _Way) -> bool:
        """Whether it is better than the best of those before it.

        What pays comes first, then that with which the whole training takes least. Of ways that
        change the experiment the ones before change it less: more of it must pay.
        """
        if self.found.outcome is before.found.outcome is Outcome.CHANGES:
            return self.speedup > AS_GOOD * before.speedup
        pays, paid = (
            way.found.outcome in (Outcome.KEPT, Outcome.CHANGES) for way in (self, before)
        )
        if pays != paid:
            return pays
        order = (-self.whole_s, self.speedup) > (-before.whole_s, before.speedup)
        return order if pays else self.speedup > before.speedup


def _way(one: Measured, baseline: Baseline, why_late: str, steps: int | None) -> _Way:
    """A way as it stands for a training of so many steps."""
    found = trial(one, baseline, why_late)
    even, seconds = found.break_even_steps, found.one_off_s
    if found.kept and one.candidate.apart:
        found = found.dropped(Outcome.CHANGES, APART.format(found.fix))
    elif found.kept and steps is not None and even is not None and even > steps:
        reason = (
            f"the {seconds:.1f} s that it costs once are earned back after {even:,} steps, "
            f"and this training has {steps:,}"
        )
        found = found.dropped(Outcome.LOSES, reason)
    whole_s = 0.0
    if steps is not None and found.speedup is not None:
        whole_s = steps * baseline.step_s / max(found.speedup, 1e-9) + (seconds or 0.0)
    differs = found.outcome is Outcome.LOSSES_DIFFER
    gains = differs and (found.low or 0.0) > 1 + floor(baseline.control)
    trains = _finite(one.losses) or not _finite(baseline.losses)
    return _Way(found, one, whole_s, trains and (gains or found.outcome is Outcome.CHANGES))


def _beaten(way: _Way, by: _Way) -> Trial:
    found, better = way.found, by.found.variant
    more = by.speedup > way.speedup
    if found.outcome is Outcome.CHANGES:
        gives = "gives more" if more else "gives hardly less, and changes less"
        return replace(found, reason=f"{better} {gives}")
    if not found.kept:
        return found
    gives = "gives more" if more else "costs less once, and the whole training ends sooner with it"
    return found.dropped(Outcome.REDUNDANT, f"{better} {gives}")


def _finite(losses: Losses | None) -> bool:
    return losses is None or all(map(math.isfinite, losses.values.values()))
