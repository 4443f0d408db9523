"""Confirm what was kept for the whole training, and try what no step shows in whole runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.model import Event, Outcome, Patch, Run, Training, words
from trainperf.patch.patch import Written
from trainperf.trial import Tried
from trainperf.trial.budget import Clock
from trainperf.trial.repeat import FOR_LIFE, WHOLE_RUNS_S
from trainperf.whole_training.beyond import Found, additions, in_place, judged, with_trial
from trainperf.whole_training.ledger import started_in, with_calls, with_changes
from trainperf.whole_training.plain_runs import (
    PlainRuns,
    Version,
    needed_s,
    plain_runs,
    run_once,
)

SAME = 0.99
"""Two runs with a change must take less than so much of those without it, one may be unlucky."""
LEAST_SAVED = 0.02
"""Kept changes must save so much of the steps and of what stands between them: what they do to the
latter was not measured, and may well be more than less."""


def confirm(
    tried: Tried,
    found: Found,
    before: Training | None,
    run: Run,
    folder: Path,
    clock: Clock,
    on_event: Callable[[Event], None],
    plain_s: float = WHOLE_RUNS_S,
) -> tuple[Tried, Training | None]:
    """Return what stays kept, and the whole training with it.

    Where whole runs of the script take no more than `plain_s` seconds, and what `clock` has left,
    they are made, and tell; else the ledger does. What fails in them, or is no faster, is not
    kept. What could not be tried, as it saves outside the steps, is kept by what was timed in
    place, or tried in them, whatever they take of what is left.
    """
    if before is None:
        return tried, None
    before = started_in(before, tried.start_s)
    after = with_changes(before, tried.stack, not tried.passing)
    if too_little := _too_little(after):
        tried, after = _without(tried, Outcome.LOSES, too_little), before
    tried, calls = in_place(found, tried)
    after = with_calls(after, calls)

    def say(text: str, share: float | None) -> None:
        on_event({"e": "trial", "text": text, "fraction": share, "expected_s": None})

    first = [Version(before.seconds_now)]
    if (tried.stack is not None or calls) and tried.patch is not None:
        expected_s = before.seconds_now if after.seconds_after is None else after.seconds_after
        first.append(Version(expected_s, Written(tried.patch, dict(tried.sources))))
    more = additions(found, tried, before, first, clock.left)
    needed = needed_s([*first, *more]) or 0.0
    once = bool(more) and needed > clock.left
    if once and needed / 2 > clock.left:
        tried, more, once = _too_long(tried, more, needed), [], False
    versions = [*first, *more]
    if len(versions) == 1:
        return tried, after
    if not more:
        clock = clock.keeping(max(0.0, clock.left - plain_s))
    runs = plain_runs(run, versions, folder, clock, say, once=once)
    if len(first) > 1:
        if not runs.seconds and not runs.failure:
            runs = run_once(run, first[1], folder, clock, say, runs)
        if fault := _fault(runs):
            return _without(tried, *fault), before
    tried, last = _with(tried, more, runs, len(first) - 1)
    if last >= len(first):
        after = replace(after, items=before.items)  # the ledger does not hold what only runs tell
    return tried, _by_runs(after, runs, last)


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
    repeated = [one for one in after.items if one.part in ("steps", "between")]
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
        trial = None if version.adds is None else judged(version.adds, runs, last)
        if trial is not None:
            tried = with_trial(tried, trial, version.written)
        if trial is None or not trial.kept:
            break
        last += 1
    return tried, last


def _too_long(tried: Tried, more: list[Version], needed_s: float) -> Tried:
    """The trials, of which some say what whole runs would have taken."""
    reason = f"what it saves no slice of steps shows, and whole runs would take {needed_s:.0f} s"
    left = {one.adds.id for one in more if one.adds and one.adds.data.get("outside")}
    trials = (replace(one, reason=reason) if one.fix in left else one for one in tried.trials)
    return replace(tried, trials=tuple(trials))


def _by_runs(training: Training, runs: PlainRuns, last: int) -> Training:
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
