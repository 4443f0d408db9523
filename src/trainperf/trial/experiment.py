"""Try the fixes on the real script: each alone, then the winners together."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from trainperf.fixes import by_id
from trainperf.model import (
    Control,
    Event,
    Evidence,
    Finding,
    Outcome,
    Overhead,
    Patch,
    Stack,
    Trial,
    Trials,
)
from trainperf.recording.run import Epoch
from trainperf.run.caches import filled
from trainperf.trial.budget import CACHES, Bench, Clock, Costs, budget_needed, telling
from trainperf.trial.candidates import Candidate, Changes
from trainperf.trial.fresh import FreshProcesses
from trainperf.trial.legs.faults import Ended, LegFailed, OutOfTime
from trainperf.trial.outcome import FOR_LIFE, Baseline, once_s
from trainperf.trial.planning import SEED, Plan, Subject, leg_run, plan
from trainperf.trial.queue import Queue
from trainperf.trial.repeat import left_to_whole_runs, repeat
from trainperf.trial.rounds import in_rounds
from trainperf.trial.stack import Stacked


@dataclass(frozen=True)
class Tried:
    """The outcome of all trials.

    `patch` holds the kept fixes, nothing else; None if none was tried. `sources` are the files that
    it changes, by path, as it leaves them. `step_s` is a step of the unchanged script,
    `step_on_top_s` one of that on top of which the rest was tried, where it was; `overhead` is
    what trainperf's hooks took of each, `start_s` what passed until its first update, where it was
    started again for the trials; seconds. `choices` are the findings of fixes that pay and could be
    made in several ways, by id, with the best way. `apart` are the trials of fixes that pay and
    make another experiment of the script, each with the patch that holds this fix alone. `passing`
    are the kept ones whose gain may not last as long as the training. `ended` says that the
    training ended by itself before its steps could be compared.
    """

    trying: Trials
    trials: tuple[Trial, ...] = ()
    control: Control | None = None
    stack: Stack | None = None
    patch: Patch | None = None
    sources: Mapping[str, bytes] = field(default_factory=dict)
    overhead: Overhead | None = None
    step_s: float | None = None
    step_on_top_s: float | None = None
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
        return Tried(planned.how, left_out, ended=planned.ends)

    done, failure = _run(planned, subject, clock, on_event)
    if failure and planned.how.mode == "side by side" and not clock.over():
        # It ran when it was alone: a port, a lock, a file may not be had twice.
        alone = plan(replace(subject, sequential=True), clock)
        if alone.chosen:
            how = replace(alone.how, mode_reason=f"beside itself the script {failure}")
            left_out, legs = alone.skipped, done.trying.legs
            done, failure = _run(replace(alone, how=how), subject, clock, on_event)
            done = replace(done, trying=replace(done.trying, legs=legs + done.trying.legs))
    seconds = time.monotonic() - began
    how = replace(done.trying, seconds=seconds, seed=SEED, interrupted=interrupted())
    trials = _beside(done.trials, left_out)
    return replace(done, trying=how, trials=trials, ended=isinstance(failure, Ended))


def run_once(
    subject: Subject,
    costs: Costs | str,
    clock: Clock,
    on_event: Callable[[Event], None],
    findings: tuple[Finding, ...],
    ids: Sequence[str],
) -> LegFailed | None:
    """Why the script with the changes of some `ids` fails, run once; None where it does not.

    It comes to its first slice, and through a whole turn as it is written where there is time.
    """
    run, turn = leg_run(subject, {}), subject.evidence.outside
    candidate = Changes(run, findings, subject.edits).join(ids)
    assert isinstance(candidate, Candidate)
    if isinstance(costs, str):
        return OutOfTime(f"was not run: {costs}")
    left_s = clock.left - costs.starting(1, candidate.warm_up_epochs)
    if left_s < 0:
        return OutOfTime(f"was not run: {clock.reason}")
    if turn.turn in ("fit", "epoch"):
        candidate = replace(candidate, holds=Epoch(turn.steps, turn.seconds, written=True))
    bench = Bench(run, subject.folder / "once", costs, telling(on_event))
    with bench.guard() as guard:
        bench.say(f"{candidate.name}, once", None)
        process = FreshProcesses(bench, guard).process(candidate, clock, int(left_s > turn.seconds))
    return None if isinstance(process.failure, Ended) else process.failure


def _beside(trials: Sequence[Trial], others: Iterable[Trial]) -> tuple[Trial, ...]:
    """Trials, and those of what is not among them."""
    named = {trial.name for trial in trials}
    return (*trials, *(trial for trial in others if trial.name not in named))


def _run(
    planned: Plan, subject: Subject, clock: Clock, on_event: Callable[[Event], None]
) -> tuple[Tried, LegFailed | None]:
    """Make the trials of a plan: what came of it, and why there was nothing."""
    assert planned.costs is not None
    given = os.environ | subject.recording.run.env
    bench = Bench(planned.changes.run, subject.folder, planned.costs, telling(on_event))
    with filled(given, subject.folder / CACHES), Queue(bench) as queue:
        try:
            return _measure(queue, planned, subject, clock), None
        except LegFailed as failed:
            done = _failed(planned, failed, clock)
            return replace(done, trying=replace(done.trying, legs=queue.legs)), failed


def _measure(engine: Queue, planned: Plan, subject: Subject, clock: Clock) -> Tried:
    costs, spent = planned.costs, clock.now() - subject.began
    assert costs is not None
    epochs = max(candidate.warm_up_epochs for candidate in planned.chosen)
    missed = subject.deadline - subject.began
    needed = budget_needed(spent, costs, len(planned.chosen), epochs, missed)

    def late() -> str:
        reason = f"{clock.reason} before it could be compared"
        return reason if clock.interrupted() else f"{reason}; --budget {needed:.0f}s would do"

    came = in_rounds(engine, planned, subject, clock, late)
    stacked, found = came.stacked, dict(came.found)
    findings = planned.changes.findings
    freed = () if subject.freed is None else subject.freed.findings
    others = (one for one in freed if one.id not in {finding.id for finding in findings})
    changes = replace(planned.changes, findings=(*findings, *others)).choosing(came.choices)
    baseline = engine.baseline(stacked.holds)
    once = once_s(stacked.start, baseline, stacked.ratio.speedup if stacked.ratio else 1.0)
    if stacked.ratio is not None and engine.beside and not subject.changes:
        share = next(one.share for one in came.planned if one.holds == stacked.holds)
        gives = stacked.ratio.speedup
        if not left_to_whole_runs(subject.training, share, gives, clock.left):
            engine.close()
            stacked, found = _repeated(engine.bench, planned.ours, changes, clock, stacked, found)
    short_of_time = came.late or any(trial.late for trial in found.values())
    written = changes.write(stacked.fixes)
    kept = [finding for finding in changes.findings if finding.id in stacked.fixes]
    passing = tuple(one.id for one in kept if not by_id()[one.id].lasts(one))

    def order(trial: Trial) -> tuple[int, float]:
        return list(Outcome).index(trial.outcome), -(trial.speedup or 0.0)

    return Tried(
        trying=replace(
            planned.how,
            reason="interrupted" if clock.interrupted() else "",
            budget_needed_s=needed if short_of_time else planned.how.budget_needed_s,
            legs=engine.legs + came.legs,
            compared_s=engine.compared_s + came.compared_s,
        ),
        trials=tuple(sorted(_beside((*found.values(), *came.others), came.skipped), key=order)),
        control=baseline.control or engine.baseline().control,
        stack=_stack(stacked, baseline, subject.evidence, once, passing),
        patch=written.patch,
        sources=written.contents,
        overhead=Overhead(baseline.own_s / baseline.step_s) if baseline.step_s else None,
        step_s=baseline.step_s,
        step_on_top_s=came.step_on_top_s,
        start_s=None if baseline.start is None else baseline.start.seconds,
        choices=came.choices,
        apart=tuple((one, changes.write((one.fix,)).patch) for one in came.apart),
        passing=passing,
    )


def _repeated(
    bench: Bench,
    ours: Collection[str],
    changes: Changes,
    clock: Clock,
    stacked: Stacked,
    found: dict[str, Trial],
) -> tuple[Stacked, dict[str, Trial]]:
    """What stays kept of a stack, as fresh processes in the user's own environment repeat it.

    Without the variables that are `ours`.
    """
    assert stacked.ratio is not None
    own = {name: value for name, value in changes.run.env.items() if name not in ours}
    run = replace(changes.run, env=own)
    candidate = replace(changes, run=run).join(stacked.fixes)
    assert isinstance(candidate, Candidate)
    candidate = replace(candidate, holds=stacked.holds)
    bench = replace(bench, run=run, folder=bench.folder / "again")
    came = repeat(bench, candidate, clock, stacked.ratio.low)
    shutil.rmtree(bench.folder, ignore_errors=True)
    kept = {name: found[name] for name in stacked.fixes}
    figures = " and ".join(f"{pair:.2f}×" for pair in came.pairs)
    pairs = "two pairs" if len(came.pairs) > 1 else "a pair"
    again = f"in {pairs} of fresh processes, as you run it: {figures}"
    gone: tuple[Outcome, str] | None = None
    if came.failed:
        gone = Outcome.FAILED, f"in a fresh process it {came.reason}"
    elif came.ratio is None:
        again = f"not repeated in fresh processes: {came.reason}"
        if stacked.ratio.low <= FOR_LIFE:
            gone = Outcome.NOT_TRIED, f"it was {again}"
    elif not came.stands:
        gone = Outcome.NO_EFFECT, f"what it gave was noise: {again}"
    if gone is not None:
        late = gone[0] is Outcome.NOT_TRIED
        dropped = {name: replace(one, late=late).dropped(*gone) for name, one in kept.items()}
        return Stacked((), None), found | dropped
    if came.ratio is not None:
        if len(kept) == 1:
            kept = {name: replace(one, **asdict(came.ratio)) for name, one in kept.items()}
        else:
            again = f"{'both' if len(kept) == 2 else f'all {len(kept)}'} together, {again}"
        if came.ratio.low <= 1:
            again += "; each shows the gain, but slices varied so that its interval reaches below 1"
        stacked = replace(stacked, ratio=came.ratio, together=True)
    return stacked, found | {name: replace(one, note=again) for name, one in kept.items()}


def _stack(
    stacked: Stacked,
    baseline: Baseline,
    evidence: Evidence,
    once_s: float | None,
    passing: Sequence[str],
) -> Stack | None:
    whole, epoch, pause = stacked.ratio, stacked.holds, evidence.between_epochs
    if whole is None:
        return None
    before, after = baseline.step_s, baseline.step_s / whole.speedup
    batch, steps = evidence.loop.batch_size, None if passing else evidence.loop.epoch_steps
    between = pause.seconds if pause is not None else None
    held = 0.0
    if epoch is not None:  # its steps hold the start of the input
        held = epoch.pause_s + ((pause.restart_s or 0.0) if pause is not None else 0.0)
        if epoch.written:
            turns = epoch.steps / (evidence.loop.epoch_steps or epoch.steps)
            more = epoch.seconds - epoch.steps * evidence.times.real
            held = max(0.0, more) / max(1.0, turns)  # besides training steps
        between = max(0.0, (between or 0.0) - held)
    return Stack(
        fixes=stacked.fixes,
        **asdict(whole),
        before_step_s=before,
        after_step_s=after,
        before_samples_per_s=batch / before if batch else None,
        after_samples_per_s=batch / after if batch else None,
        before_epoch_s=steps * before + between if steps and between is not None else None,
        after_epoch_s=steps * after + between if steps and between is not None else None,
        once_seconds=once_s,
        held_s=held,
        together=stacked.together,
    )


def _failed(planned: Plan, failure: LegFailed, clock: Clock) -> Tried:
    """The unchanged script itself could not be run as a leg: nothing can be compared."""
    late = clock.interrupted() or clock.left <= 0 or isinstance(failure, OutOfTime)
    over = "interrupted" if clock.interrupted() else "the budget was over"
    reason = f"{over} before anything could be compared"
    if not late:
        reason = f"the script as it is could not be run as a leg: {failure}"
    trials = tuple(candidate.skipped(reason, late) for candidate in planned.chosen)
    return Tried(replace(planned.how, mode="none", reason=reason), trials)
