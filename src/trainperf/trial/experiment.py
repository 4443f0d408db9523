"""Try the fixes on the real script: each alone, then the winners together."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from trainperf.fixes import by_id
from trainperf.model import (
    Control,
    Event,
    Evidence,
    Finding,
    Length,
    Outcome,
    Patch,
    Ratio,
    Stack,
    Trial,
    Trials,
)
from trainperf.model.trials import NOISE
from trainperf.recording.run import Epoch
from trainperf.run.caches import filled
from trainperf.trial.budget import CACHES, LATE, NO_SLICE, Bench, Clock, Costs, budget_needed
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import AS_GOOD, WORTH
from trainperf.trial.fresh import Rest
from trainperf.trial.legs.faults import ENDED
from trainperf.trial.legs.leg import LegFailed
from trainperf.trial.outcome import ONE_OFF_S, Baseline, Measured, more_once
from trainperf.trial.planning import (
    SEED,
    Edits,
    GivenChanges,
    Plan,
    Subject,
    ends_by_itself,
    plan,
)
from trainperf.trial.queue import Queue
from trainperf.trial.repeat import FOR_LIFE, left_to_whole_runs, needed_s, repeat
from trainperf.trial.stack import Means, Stacked, stack
from trainperf.trial.variants import SortedOut, of_another, sort_out

ON_TOP = 10
"""So many pairs tell what one change gives on top of another."""
BEHIND = 2
"""So many that gave nothing alone are tried on top of what pays: each takes a leg of its own."""
BEHIND_INPUT = "the step waits for its input, which hides what it gives"


@dataclass(frozen=True)
class Tried:
    """The outcome of all trials.

    `patch` holds the kept fixes, nothing else; None if none was tried. `sources` are the files
    that it changes, by path, as it leaves them.

    `own_s` is what trainperf's hooks took of each step of the unchanged script, `start_s` what
    passed until its first update, where it was started again for the trials; seconds.
    `choices` are the findings of fixes that pay and could be made in several ways, by id,
    with the best way. `apart` are the trials of fixes that pay and make another experiment of the
    script, each with the patch that holds this fix alone. `passing` are the kept ones whose gain
    may not last as long as the training. `ended` says that the training ended by itself before its
    steps could be compared.
    """

    trying: Trials
    trials: tuple[Trial, ...] = ()
    control: Control | None = None
    stack: Stack | None = None
    patch: Patch | None = None
    sources: Mapping[str, bytes] = field(default_factory=dict)
    own_s: float | None = None
    step_s: float | None = None
    start_s: float | None = None
    choices: Mapping[str, Finding] = field(default_factory=dict)
    apart: tuple[tuple[Trial, Patch], ...] = ()
    passing: tuple[str, ...] = ()
    ended: bool = False


def try_fixes(
    subject: Subject, interrupted: Callable[[], bool], on_event: Callable[[Event], None]
) -> Tried:
    """Run the script with each fix really applied beside the script as it is.

    Ends before `subject.deadline`; what could not be tried until then is named. Every
    process that it starts is gone when this returns.
    """
    began = time.monotonic()
    clock = Clock(subject.deadline, interrupted)
    planned = plan(subject, clock)
    left_out = planned.skipped
    if not planned.chosen:
        return Tried(planned.how, left_out, ended=ends_by_itself(subject.recording))

    done, legs, failure = _run(planned, subject, clock, on_event)
    if failure and planned.how.mode == "side by side" and not clock.over():
        # It ran when it was alone: a port, a lock, a file may not be had twice.
        alone = plan(replace(subject, sequential=True), clock)
        if alone.chosen:
            why = f"beside itself the script {failure}"
            planned = replace(alone, how=replace(alone.how, mode_reason=why))
            left_out = planned.skipped
            done, more, failure = _run(planned, subject, clock, on_event)
            legs += more
    how = replace(
        done.trying,
        legs=legs,
        seconds=time.monotonic() - began,
        seed=SEED,
        interrupted=interrupted(),
    )
    ended = failure == ENDED
    return replace(done, trying=how, trials=(*done.trials, *left_out), ended=ended)


def _run(
    planned: Plan, subject: Subject, clock: Clock, on_event: Callable[[Event], None]
) -> tuple[Tried, int, str]:
    """Make the trials of a plan: what came of it, how many legs, why there was nothing."""

    def say(text: str, share: float | None) -> None:
        on_event({"e": "trial", "text": text, "fraction": share, "expected_s": None})

    assert planned.costs is not None
    given = os.environ | subject.recording.run.env
    bench = Bench(planned.edits.run, subject.folder, planned.costs, say)
    with filled(given, subject.folder / CACHES), Queue(bench) as queue:
        try:
            return _measure(queue, planned, subject, clock), queue.legs, ""
        except LegFailed as failed:
            return _failed(planned, str(failed), clock), queue.legs, str(failed)


def _measure(engine: Queue, planned: Plan, subject: Subject, clock: Clock) -> Tried:
    spent = clock.now() - subject.began
    ahead = _Ahead(engine, planned, _hidden(subject))
    measured = engine.compare(planned.chosen, clock, ahead)
    joined = [one for one in measured if one.candidate.pairs and not one.late]
    measured = [one for one in measured if not one.candidate.pairs]
    costs, needed, late = planned.costs, None, f"{clock.reason} before it could be compared"
    assert costs is not None
    if any(one.late for one in measured) and not clock.interrupted():
        epochs = max(one.warm_up_epochs for one in planned.chosen)
        missed = subject.deadline - subject.began
        needed = budget_needed(spent, costs, len(planned.chosen), epochs, missed)
        late = f"out of budget before it could be compared; --budget {needed:.0f}s would do"
    length = subject.evidence.length_
    steps = length.steps if isinstance(length, Length) else None
    sorted_out = sort_out(measured, engine.baseline, late, steps)
    found, edits = dict(sorted_out.best), planned.edits.choosing(sorted_out.choices)
    partners = _partners(sorted_out, measured, ahead.behind)
    for one in subject.behind:
        if one.id in partners:
            found[one.id] = Trial(one.id, Outcome.NOT_TRIED, BEHIND_INPUT, bound=one.bound)

    def means(holds: Epoch | None) -> Means:
        def join(ids: Sequence[str]) -> Candidate | str:
            made = edits.join(ids)
            return made if isinstance(made, str) else replace(made, holds=holds)

        repeating_s = 0.0 if subject.changes else needed_s(costs.holding(holds))
        compare = partial(ahead.compare, joined)
        return Means(holds, engine.baseline(holds), join, compare, clock.keeping(repeating_s))

    stacked = stack(sorted_out.winners, means, partners)
    for name, drop in stacked.dropped.items():
        if name in partners and drop.outcome is Outcome.NOT_TRIED:
            continue  # what it gave alone stands
        found[name] = found[name].dropped(drop.outcome, drop.reason)
    for name in set(partners) & set(stacked.fixes):
        under = stacked.fixes[: stacked.fixes.index(name)]
        gain = asdict(stacked.gains[name])
        found[name] = replace(
            found[name].dropped(Outcome.KEPT, ""), on_top=under, **gain, kept=True
        )
    baseline = engine.baseline(stacked.holds)
    once = _once(stacked, baseline, engine.beside)
    if stacked.fixes and engine.beside and not subject.changes:
        stacked, found = _repeated(engine, planned, edits, subject, clock, stacked, found)
    written = edits.write(stacked.fixes)
    kept = [one for one in edits.findings if one.id in stacked.fixes]
    passing = tuple(one.id for one in kept if not by_id()[one.id].lasts(one))
    apart = of_another(found.values(), measured, engine.baseline)
    return Tried(
        trying=replace(
            planned.how,
            reason="interrupted" if clock.interrupted() else "",
            budget_needed_s=needed or planned.how.budget_needed_s,
            compared_s=engine.compared_s,
        ),
        trials=tuple(sorted((*found.values(), *sorted_out.others), key=_order)),
        control=baseline.control or engine.baseline().control,
        stack=_stack(stacked, found, baseline, subject.evidence, once, passing),
        patch=written.patch,
        sources=written.contents,
        own_s=baseline.own_s,
        step_s=baseline.step_s,
        start_s=None if baseline.start is None else baseline.start.seconds,
        choices=sorted_out.choices,
        apart=tuple((one, edits.write((one.fix,)).patch) for one in apart),
        passing=passing,
    )


def _repeated(
    engine: Queue,
    planned: Plan,
    edits: Edits,
    subject: Subject,
    clock: Clock,
    stacked: Stacked,
    found: dict[str, Trial],
) -> tuple[Stacked, dict[str, Trial]]:
    """What stays kept of a stack, as fresh processes in the user's own environment repeat it."""
    share = next(one.share for one in planned.chosen if one.holds == stacked.holds)
    assert stacked.ratio is not None
    if left_to_whole_runs(subject.training, share, stacked.ratio.speedup, clock.left):
        return stacked, found
    engine.close()
    own = {name: value for name, value in edits.run.env.items() if name not in planned.ours}
    run = replace(edits.run, env=own)
    candidate = replace(edits, run=run).join(stacked.fixes)
    assert isinstance(candidate, Candidate)
    candidate = replace(candidate, holds=stacked.holds)
    bench = replace(engine.bench, run=run, folder=engine.bench.folder / "again")
    came = repeat(bench, candidate, clock, stacked.ratio.low)
    shutil.rmtree(bench.folder, ignore_errors=True)
    kept = {name: found[name] for name in stacked.fixes}
    if came.ratio is None and stacked.ratio.low > FOR_LIFE:
        note = f"not repeated in fresh processes: {came.reason}"
        return stacked, found | {name: replace(one, note=note) for name, one in kept.items()}
    if came.ratio is None:
        reason = f"it was not repeated in fresh processes: {came.reason}"
        return _none_of(found, kept, Outcome.NOT_TRIED, reason)
    figures = " and ".join(f"{pair:.2f}×" for pair in came.pairs)
    pairs = "two pairs" if len(came.pairs) > 1 else "a pair"
    again = f"in {pairs} of fresh processes, as you run it: {figures}"
    if not came.stands:
        return _none_of(found, kept, Outcome.NO_EFFECT, f"what it gave was {NOISE}: {again}")
    if len(kept) == 1:
        kept = {name: replace(one, **asdict(came.ratio)) for name, one in kept.items()}
    else:
        again = f"all {len(kept)} together, {again}"
    noted = {name: replace(one, note=again) for name, one in kept.items()}
    return replace(stacked, ratio=came.ratio), found | noted


def _none_of(
    found: dict[str, Trial], kept: Mapping[str, Trial], outcome: Outcome, reason: str
) -> tuple[Stacked, dict[str, Trial]]:
    gone = {name: trial.dropped(outcome, reason) for name, trial in kept.items()}
    return Stacked((), None), found | gone


def _partners(
    sorted_out: SortedOut, alone: Sequence[Measured], behind: Mapping[str, float]
) -> list[str]:
    """The fixes that gave nothing alone, and may on top of what pays.

    So what was made for one that is kept, and what saves the other side of the step too little to
    be told from noise: of a step that waits for its input most of the time the model's part is
    small, and a larger share once the input is faster. `behind` are fixes that the input hides,
    each with the share of today's step that it may save.
    """
    kept = {one.candidate.fixes[0] for one in sorted_out.winners}
    nothing = (Outcome.NO_EFFECT, Outcome.SLOWER)
    tried = (name for name, one in sorted_out.best.items() if one.outcome in nothing)
    fixes = by_id()
    made_for = [name for name in tried if name in fixes and kept & {*fixes[name].pays_with}]
    best = next(iter(sorted_out.winners), None)
    if best is None or best.ratio is None:
        return made_for
    saves = dict(behind) if best.candidate.input else {}
    for one in alone:
        trial, another = sorted_out.best[one.candidate.fixes[0]], one.candidate.input
        too_little = trial.outcome is Outcome.NO_EFFECT and trial.variant == one.candidate.variant
        alike = another != best.candidate.input and one.holds == best.holds
        if one.ratio is not None and too_little and alike and not one.candidate.apart:
            saves[trial.fix] = 1 - 1 / one.ratio.speedup
    left = {name: 1 - best.ratio.speedup * share for name, share in saves.items()}
    worthwhile = sorted(
        (name for name in left if left[name] < 1 / (1 + WORTH)), key=left.__getitem__
    )
    return list(dict.fromkeys([*made_for, *worthwhile[:BEHIND]]))


def _hidden(subject: Subject) -> dict[str, float]:
    """What the input hides, each with the share of today's step that it may save."""
    if not subject.behind:
        return {}
    step = subject.evidence.utilization
    gains = {one.id: one.most or by_id()[one.id].usual for one in subject.behind}
    return {name: step * (1 - 1 / gain) for name, gain in gains.items()}


@dataclass(frozen=True)
class _Ahead(Rest):
    """Puts winners together while others are still tried, and keeps time for what comes after.

    What is measured then takes the place of the last stacks.
    """

    engine: Queue
    planned: Plan
    behind: Mapping[str, float] = field(default_factory=dict)

    def keep(self, measured: Sequence[Measured]) -> float:
        """Seconds needed to measure the winners together, where they are not, and once more."""
        alone, joined = _apart(measured)
        of_steps = self._costs
        if not alone:
            return needed_s(of_steps)
        sorted_out = sort_out(alone, self.engine.baseline, "")
        if not sorted_out.winners:
            return needed_s(of_steps)
        costs = of_steps.holding(sorted_out.winners[0].holds)
        known = max((len(one.candidate.fixes) for one in joined), default=1)
        stacks = max(0, len(sorted_out.winners) - known) + len(
            _partners(sorted_out, alone, self.behind)
        )
        return needed_s(costs) + costs.starting(stacks) + costs.comparing(stacks)

    def more(self, measured: Sequence[Measured]) -> Sequence[Candidate]:
        """All that pays in slices of one kind, together, once each way to make it is decided."""
        if isinstance(self.planned.edits, GivenChanges):
            return ()
        alone, _ = _apart(measured)
        ways = Counter(one.fixes[0] for one in self.planned.chosen)
        ways.subtract(one.candidate.fixes[0] for one in alone)
        sorted_out = sort_out(alone, self.engine.baseline, "")
        winners = [one for one in sorted_out.winners if not ways[one.candidate.fixes[0]]]
        winners = [one for one in winners if one.holds == winners[0].holds]
        if len(winners) < 2:
            return ()
        edits = self.planned.edits.choosing(sorted_out.choices)
        made = edits.join([one.candidate.fixes[0] for one in winners])
        if isinstance(made, str):
            return ()
        gains = [one.ratio.speedup for one in winners if one.ratio is not None]
        share, holds = winners[0].candidate.share, winners[0].holds
        joined = replace(made, hope=math.prod(gains), share=share, holds=holds, pairs=ON_TOP)
        return (joined,)

    def needless(self, candidate: Candidate, measured: Sequence[Measured]) -> str:
        """Why a change of the input can give no more: another gives what free input would."""
        alone, _ = _apart(measured)
        if not alone or not candidate.input or candidate.most is None or candidate.epoch:
            return ""
        best = next(iter(sort_out(alone, self.engine.baseline, "").winners), None)
        if best is None or best.ratio is None or best.holds != candidate.holds:
            return ""
        gains_all = best.candidate.input and candidate.hope <= AS_GOOD * best.ratio.speedup
        return f"{best.name} gives all that a faster input can" if gains_all else ""

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

    @property
    def _costs(self) -> Costs:
        assert self.planned.costs is not None
        return self.planned.costs


def _apart(measured: Sequence[Measured]) -> tuple[list[Measured], list[Measured]]:
    """What was measured alone, and of several together; both have a ratio."""
    compared = [one for one in measured if one.ratio is not None]
    joined = [one for one in compared if one.candidate.pairs]
    return [one for one in compared if not one.candidate.pairs], joined


def _stack(
    stacked: Stacked,
    found: dict[str, Trial],
    baseline: Baseline,
    evidence: Evidence,
    once_s: float | None,
    passing: Sequence[str] = (),
) -> Stack | None:
    if not stacked.fixes or stacked.ratio is None:
        return None
    whole = stacked.ratio
    before, after = baseline.step_s, baseline.step_s / whole.speedup
    batch, steps = evidence.loop.batch_size, None if passing else evidence.loop.epoch_steps
    pause = evidence.between_epochs
    between = pause.seconds if pause is not None else None
    held, epoch = 0.0, stacked.holds
    if epoch is not None:  # its steps hold the start of the input
        held = epoch.pause_s + ((pause.restart_s or 0.0) if pause is not None else 0.0)
        if epoch.written:
            held = _held_of(epoch, evidence)
        between = max(0.0, (between or 0.0) - held)
    return Stack(
        fixes=stacked.fixes,
        **asdict(whole),
        interaction=_interaction(stacked, whole, found),
        before_step_s=before,
        after_step_s=after,
        before_samples_per_s=batch / before if batch else None,
        after_samples_per_s=batch / after if batch else None,
        before_epoch_s=steps * before + between if steps and between is not None else None,
        after_epoch_s=steps * after + between if steps and between is not None else None,
        once_seconds=once_s,
        held_s=held,
    )


def _held_of(turn: Epoch, evidence: Evidence) -> float:
    """Seconds that slices of whole turns hold besides training steps, for each epoch of a turn."""
    epochs = turn.steps / (evidence.loop.epoch_steps or turn.steps)
    return max(0.0, turn.seconds - turn.steps * evidence.times.real) / max(1.0, epochs)


def _once(stacked: Stacked, baseline: Baseline, beside: bool) -> float | None:
    """The one-off cost of the stack over the unchanged script's; 0 within the spread of starts.

    The unchanged script started `beside` more legs than the stack did, as a rule: that the stack
    started sooner tells nothing then.
    """
    if stacked.start is None or baseline.start is None or stacked.ratio is None:
        return None
    more = more_once(stacked.start, baseline.start, baseline.step_s, stacked.ratio.speedup)
    if abs(more) < max(ONE_OFF_S, baseline.start_spread_s) or (beside and more < 0):
        return 0.0
    return more


def _interaction(stacked: Stacked, whole: Ratio, found: dict[str, Trial]) -> float | None:
    """The whole over the product of its parts; None for a single fix."""
    alone = [found[name].speedup for name in stacked.fixes]
    parts = [one for one in alone if one is not None]
    if len(parts) < 2 or len(parts) < len(alone):
        return None
    return whole.speedup / math.prod(parts)


def _failed(planned: Plan, reason: str, clock: Clock) -> Tried:
    """The unchanged script itself could not be run as a leg: nothing can be compared."""
    if clock.interrupted():
        reason = "interrupted before anything could be compared"
    elif clock.left <= 0 or reason in (LATE, NO_SLICE):
        reason = "the budget was over before anything could be compared"
    else:
        reason = f"the script as it is could not be run as a leg: {reason}"
    trials = tuple(one.skipped(reason) for one in planned.chosen)
    return Tried(replace(planned.how, mode="none", reason=reason), trials)


def _order(one: Trial) -> tuple[int, float]:
    return list(Outcome).index(one.outcome), -(one.speedup or 0.0)
