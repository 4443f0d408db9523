"""Confirm what was kept for the whole training, and try what no slice of steps shows.

What stands outside the steps is kept by calls that were timed in place, or tried in whole runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.fixes import by_id
from trainperf.model import (
    Equivalence,
    Event,
    Finding,
    Item,
    Outcome,
    Patch,
    Run,
    Training,
    Trial,
    words,
)
from trainperf.patch.patch import Edits, Written, changed
from trainperf.rewrite.script import default_reader
from trainperf.trial import Tried, planning
from trainperf.trial.budget import Clock, telling
from trainperf.trial.candidates import variants
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.outcome import FOR_LIFE, floor
from trainperf.trial.repeat import WHOLE_RUNS_S
from trainperf.whole_training.ledger import started_in, with_calls, with_changes
from trainperf.whole_training.plain_runs import (
    AS_IT_IS,
    PlainRuns,
    Script,
    Version,
    judged,
    needed_s,
    plain_runs,
)

SAME = 0.99
"""Two runs with a change must take less than so much of those without it, one may be unlucky."""
LEAST_SAVED = 0.02
"""Kept changes must save so much of the steps and of what stands between them: what they do to the
latter was not measured, and may well be more than less."""
LEAST = 1.25
"""What a change must promise the whole training: two plain runs of a script may lie 20 % apart."""
IN_PLACE = "by calls that were timed in place"
"""How it was measured without a run of its own."""
FASTER = "its calls are faster where they were timed in place, but the changed script"
Once = Callable[[tuple[Finding, ...], Sequence[str]], LegFailed | None]
"""Why the script fails with the changes of some ids, run once."""
UNCHANGED = (Equivalence.EXACT, Equivalence.ENVIRONMENT)
"""A plain run tells no losses but those that it prints: only what leaves them as they are is tried
so, but in a training that ends by itself before its steps can be compared."""
SHARE_KEPT = 0.5
"""At most so much of the time that is left is kept back from trials of steps."""


@dataclass(frozen=True)
class Found:
    """The findings of a diagnosis, and their edits."""

    findings: tuple[Finding, ...]
    edits: Edits


def confirm(
    tried: Tried,
    found: Found,
    before: Training | None,
    run: Run,
    folder: Path,
    clock: Clock,
    on_event: Callable[[Event], None],
    plain_s: float = WHOLE_RUNS_S,
    observed_s: float | None = None,
    run_once: Once = lambda findings, ids: None,
) -> tuple[Tried, Training | None]:
    """Return what stays kept, and the whole training with it.

    Where whole runs of the script take no more than `plain_s` seconds, and what `clock` has left,
    they tell; else the ledger does. What fails in them, or is no faster, is not kept. What could
    not be tried, as it saves outside the steps or as the training ends by itself too soon, is kept
    by what was timed in place, or tried in them, whatever they take of what is left. `observed_s`
    are the seconds of an observed run that came to its end.
    """
    if before is None:
        return tried, None
    before = started_in(before, tried.start_s)
    after = with_changes(before, tried.stack, not tried.passing)
    if too_little := _too_little(after):
        tried, after = _without(tried, Outcome.LOSES, too_little), before
    tried, calls = in_place(found, tried, run_once)
    after = with_calls(after, calls)

    planned = before
    if observed_s is not None:  # each second of it may be one of its steps
        items = (Item("steps", "an observed run", 1, observed_s),)
        planned = replace(before, seconds_now=observed_s, items=items)
    first = [Version(planned.seconds_now)]
    if (tried.stack is not None or calls) and tried.patch is not None:
        expected_s = planned.seconds_now if after.seconds_after is None else after.seconds_after
        first.append(Version(expected_s, Written(tried.patch, dict(tried.sources))))
    more = additions(found, tried, planned, first, clock.left)
    needed = needed_s([*first, *more]) or 0.0
    once = bool(more) and needed > clock.left
    if once and needed / 2 > clock.left:
        tried, more, once = _too_long(tried, more, needed), [], False
    versions = [*first, *more]
    if len(versions) == 1:
        return tried, after
    if not more:
        clock = clock.keeping(max(0.0, clock.left - plain_s))
    script = Script(run, folder, clock, telling(on_event))
    runs = plain_runs(script, versions, once)
    if len(first) > 1 and (fault := _fault(runs)):
        return _without(tried, *fault), before
    tried, last = _with(tried, more, runs, len(first) - 1)
    if tried.ended and runs.seconds:
        tried, runs, last = _on_top(found, tried, planned, script, runs, last)
        tried = replace(tried, trying=replace(tried.trying, reason=planning.BY_WHOLE_RUNS))
    if tried.ended or last >= len(first):
        after = replace(after, items=before.items)  # the ledger does not hold what only runs tell
    return tried, by_runs(after, runs, last)


def _fault(runs: PlainRuns) -> tuple[Outcome, str] | None:
    """Why what was kept does not stand the whole training; what was put on top of it may not."""
    least = FOR_LIFE if runs.once else SAME
    if len(runs.seconds) > 1 and sum(runs.seconds[1]) > least * sum(runs.seconds[0]):
        took = [" and ".join(f"{one:.1f} s" for one in pair) for pair in runs.seconds[:2]]
        return Outcome.LOSES, f"the whole script took {took[1]} with it, {took[0]} without"
    if runs.failure and len(runs.seconds) < 2:
        return Outcome.FAILED, f"in a plain run of the whole script it {runs.failure}"
    return None


def _too_little(after: Training) -> str:
    """Why what the steps save is nothing that would be felt in the training; "" where it is."""
    repeated = [item for item in after.items if item.part in ("steps", "between")]
    now = sum(one.now_s for one in repeated)
    saved = sum(one.now_s - (one.now_s if one.after_s is None else one.after_s) for one in repeated)
    if after.seconds_after is None or saved >= LEAST_SAVED * now:
        return ""
    return (
        f"it saves {words.seconds(saved)} of the {words.seconds(now)} that the training steps and "
        "what stands between them take"
    )


def _without(tried: Tried, outcome: Outcome, reason: str) -> Tried:
    """The trials with nothing kept."""
    trials = tuple(one.dropped(outcome, reason) if one.kept else one for one in tried.trials)
    root = "" if tried.patch is None else tried.patch.root
    return replace(tried, trials=trials, stack=None, patch=Patch("", (), root=root), sources={})


def _with(tried: Tried, more: list[Version], runs: PlainRuns, last: int) -> tuple[Tried, int]:
    """What was kept with each of `more` that pays on top of it, and its place among `runs`.

    `last` is the place of what was kept before them. One that does not pay is in the versions
    after it as well, so that these say nothing.
    """
    for version in more:
        assert version.adds is not None
        others = version.adds.equivalence not in UNCHANGED
        trial = judged(version.adds.id, runs, last, version.adds.most, by_losses=others)
        if trial is None:
            break
        tried = with_trial(tried, trial, version.written)
        if not trial.kept:
            break
        last += 1
    return tried, last


def _on_top(
    found: Found, tried: Tried, planned: Training, script: Script, runs: PlainRuns, last: int
) -> tuple[Tried, PlainRuns, int]:
    """Go on with what is left while there is time: beside what was kept, in further whole runs.

    Returns the runs of the script as it is and, last, those with all that was kept.
    """
    as_it_is, kept = runs.seconds[0], runs.seconds[last]
    for turn in range(len(found.findings)):
        patch = tried.patch
        written = Written(patch, dict(tried.sources)) if last and patch else AS_IT_IS
        beside = Version(statistics.fmean(kept), written)
        more = additions(found, tried, planned, [beside], script.clock.left)[:1]
        if not more or (needed_s([beside, *more]) or math.inf) > script.clock.left:
            break
        again = plain_runs(replace(script, folder=script.folder / f"{turn}"), [beside, *more])
        undecided, (tried, better) = tried, _with(tried, more, again, 0)
        if tried is undecided:
            break
        last, kept = max(last, better), again.seconds[better] if better else kept
    return tried, replace(runs, seconds=(as_it_is, kept)), min(last, 1)


def _too_long(tried: Tried, more: list[Version], needed_s: float) -> Tried:
    """The trials, of which some say what whole runs would have taken."""
    why = planning.ENDS if tried.ended else "what it saves no slice of steps shows"
    reason = f"{why}, and whole runs would take {needed_s:.0f} s"
    left = {
        version.adds.id
        for version in more
        if version.adds and (tried.ended or version.adds.slices == "none")
    }
    trials = (
        replace(trial, reason=reason, late=True) if trial.fix in left else trial
        for trial in tried.trials
    )
    return replace(tried, trials=tuple(trials))


def by_runs(training: Training, runs: PlainRuns, last: int) -> Training:
    """The training with the seconds of its plain runs in place of those of its ledger.

    Without plain runs it says why they do not confirm it.
    """
    if not runs.seconds:
        return replace(training, reason=training.reason or runs.reason)
    if not last:
        return training
    now, after = runs.seconds[0], runs.seconds[last]
    return replace(
        training,
        basis="whole runs",
        seconds_now=statistics.fmean(now),
        seconds_after=statistics.fmean(after),
        low=None if runs.once else min(after),
        high=None if runs.once else max(after),
        runs=(now[0], after[0]) if runs.once else (now[0], after[0], after[1], now[1]),
        reason="",
    )


# ----------------------------------------------------- what no step shows


def reserved_s(
    found: Found, before: Training, left_s: float, epoch_s: float | None = None
) -> float:
    """Seconds to be kept for whole runs with the change that promises most of those no step shows.

    It saves outside the steps, or after an epoch for which no trial waits: it takes `epoch_s`
    seconds, None if not known. 0 where there is none, or where they would take more than half of
    the `left_s` seconds.
    """
    endless = epoch_s is None or epoch_s > planning.LONGEST_EPOCH_S
    for one, saved_s in _promising(found, before):
        fix = by_id().get(one.id)
        waits = fix is not None and fix.warm_up_epochs > 0 and endless
        in_steps = one.slices != "none" or one.in_place is not None
        if (in_steps and not waits) or before.seconds_now is None:
            continue
        versions = (Version(before.seconds_now), Version(before.seconds_now - saved_s))
        for once in (False, True):
            needed = needed_s(versions, once)
            if needed is not None and needed <= SHARE_KEPT * left_s:
                return needed
    return 0.0


def in_place(found: Found, tried: Tried, run_once: Once) -> tuple[Tried, list[Finding]]:
    """Keep the changes that were not tried, and whose calls were timed in place; return these.

    The interval of what they give a turn of the script must clear the floor of all trials, and the
    script must run with them, on top of what was kept before.
    """
    open_, findings, ids = _left(found, tried)
    kept = list[Finding]()
    for finding in found.findings:
        gives = finding.in_place
        if finding.id not in open_ or gives is None or gives.low <= 1 + floor(tried.control):
            continue
        written = found.edits.write(findings, (*ids, finding.id))
        if finding.id not in written.patch.findings or written.patch.skipped:
            continue
        timed = [site for site, r in zip(finding.where, gives.ratios, strict=True) if r]
        lines = {site: changed(site.file, written.contents, default_reader) for site in timed}
        if not all(lines[site] & {*range(site.line, site.end_line + 1)} for site in timed):
            continue  # as many as can be edited are, not all
        failure = run_once(findings, (*ids, finding.id))
        if failure is not None:
            late = isinstance(failure, OutOfTime)
            outcome = Outcome.NOT_TRIED if late else Outcome.FAILED
            trial = Trial(finding.id, outcome, f"{FASTER} {failure}", bound=finding.most, late=late)
            patch = tried.patch or found.edits.write(findings, ids).patch
            tried = with_trial(replace(tried, patch=patch), trial, written)
            continue
        ids.append(finding.id)
        kept.append(finding)
        figures = gives.speedup, gives.low, gives.high, gives.pairs
        trial = Trial(finding.id, Outcome.KEPT, "", *figures, kept=True, bound=finding.most)
        trial = replace(trial, basis="calls", note=IN_PLACE)
        tried = with_trial(tried, trial, written)
    return tried, kept


def with_trial(tried: Tried, trial: Trial, written: Written) -> Tried:
    """The trials with this one in place of that of its fix, which is `written` where it is kept."""
    trials = tuple(trial if other.fix == trial.fix else other for other in tried.trials)
    if not trial.kept:
        return replace(tried, trials=trials)
    return replace(tried, trials=trials, patch=written.patch, sources=written.contents)


def _left(found: Found, tried: Tried) -> tuple[set[str], tuple[Finding, ...], list[str]]:
    """The fixes that were not tried, the findings as chosen, and the fixes that the patch holds."""
    findings = tuple(tried.choices.get(finding.id, finding) for finding in found.findings)
    untried = {trial.fix for trial in tried.trials if trial.outcome is Outcome.NOT_TRIED}
    patched = list(tried.patch.findings if tried.patch is not None else ())
    return untried, findings, patched


def additions(
    found: Found, tried: Tried, before: Training, first: Sequence[Version], left_s: float
) -> list[Version]:
    """The changes that could not be tried, each on top of those kept and of those before it.

    As many as can be run beside the `first` versions, the script as it is and what was kept, in
    `left_s` seconds; at least the one that promises most.
    """
    open_, findings, ids = _left(found, tried)
    made = list[Version]()
    for one, saved_s in _promising(found, before, tried.ended):
        expected_s = [*first, *made][-1].expected_s
        if one.id not in open_ or expected_s is None or len(variants(one)) > 1:
            continue
        written = found.edits.write(findings, (*ids, one.id))
        if one.id not in written.patch.findings or written.patch.skipped:
            continue
        version = Version(max(expected_s - saved_s, expected_s / 10), written, one)
        if made and (needed_s((*first, *made, version)) or math.inf) > left_s:
            break
        ids.append(one.id)
        made.append(version)
    return made


def _promising(
    found: Found, before: Training, ended: bool = False
) -> Iterator[tuple[Finding, float]]:
    """The edits that may save enough of the whole training, and how many seconds at most.

    What may save most comes first; in the order of the report where no step could be compared, as
    the training had `ended`: what each saves of it is not known either.
    """
    now, seen = before.seconds_now, set[str]()
    judged_so = (*UNCHANGED, Equivalence.NUMERICS) if ended else UNCHANGED

    def saves(finding: Finding) -> float:
        parts = {"steps", "between"} if finding.slices == "none" else {"steps"}
        turning = sum(item.now_s for item in before.items if item.part in parts)
        return turning * (1 - 1 / finding.most) if finding.most else turning

    order = found.findings if ended else sorted(found.findings, key=lambda one: -saves(one))
    for one in order:
        if now is None or not one.rewritable or one.equivalence not in judged_so or one.id in seen:
            continue
        seen.add(one.id)
        if now >= LEAST * (now - saves(one)):
            yield one, saves(one)
