"""What was kept confirmed for the whole training, and what no step shows tried in whole runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.model import Event, Outcome, Patch, Run, Training
from trainperf.trial import Tried
from trainperf.trial.budget import Clock
from trainperf.whole_training.beyond import Addition, Found, additions, judged
from trainperf.whole_training.ledger import started_in, with_changes
from trainperf.whole_training.plain_runs import (
    PlainRuns,
    Version,
    needed_s,
    plain_runs,
    run_once,
)


def confirm(
    tried: Tried,
    found: Found,
    before: Training | None,
    run: Run,
    folder: Path,
    clock: Clock,
    on_event: Callable[[Event], None],
) -> tuple[Tried, Training | None]:
    """Return what stays kept, and the whole training with it.

    Where whole runs of the script fit into what `clock` has left they are made, and tell; else
    the ledger does. What fails in them, or makes every one of them longer, is not kept. What
    could not be tried, as it saves outside the steps, is tried in them.
    """
    if before is None:
        return tried, None
    before = started_in(before, tried.start_s)
    after = with_changes(before, tried.stack, not tried.passing)

    def say(text: str, share: float | None) -> None:
        on_event({"e": "trial", "text": text, "fraction": share, "expected_s": None})

    first = [Version(before.seconds_now)]
    if tried.stack is not None and tried.patch is not None:
        patch = tried.patch
        expected_s = before.seconds_now if after.seconds_after is None else after.seconds_after
        first.append(Version(expected_s, tried.sources, patch.environment, patch.arguments))
    more = additions(found, tried, before, first, clock.left)
    needed = needed_s([*first, *(one.version for one in more)])
    if more and needed is not None and needed > clock.left:
        tried, more = _too_long(tried, more, needed), []
    versions = [*first, *(one.version for one in more)]
    if len(versions) == 1:
        return tried, after
    runs = plain_runs(run, versions, folder, clock, say)
    if len(first) > 1:
        if not runs.seconds and not runs.failure:
            runs = run_once(run, first[1], folder, clock, say, runs)
        if _broken(runs) or _longer(runs):
            return _without(tried, runs), before
    tried, last = _with(tried, more, runs, len(first) - 1)
    return tried, _by_runs(after, runs, last)


def _broken(runs: PlainRuns) -> bool:
    """Whether what was kept failed, and not what was put on top of it."""
    return bool(runs.failure) and len(runs.seconds) < 2


def _longer(runs: PlainRuns) -> bool:
    """Whether each run with what was kept took longer than each without."""
    return len(runs.seconds) > 1 and min(runs.seconds[1]) > max(runs.seconds[0])


def _without(tried: Tried, runs: PlainRuns) -> Tried:
    """The trials with nothing kept: the patch did not stand the whole training."""
    outcome, reason = Outcome.FAILED, f"in a plain run of the whole script it {runs.failure}"
    if _longer(runs):
        outcome = Outcome.LOSES
        without, with_it = (_listed(one) for one in runs.seconds[:2])
        reason = f"the whole script took {with_it} with it, {without} without"
    trials = tuple(
        replace(one, kept=False, outcome=outcome, reason=reason) if one.kept else one
        for one in tried.trials
    )
    root = "" if tried.patch is None else tried.patch.root
    return replace(tried, trials=trials, stack=None, patch=Patch("", (), root=root), sources={})


def _with(tried: Tried, more: list[Addition], runs: PlainRuns, last: int) -> tuple[Tried, int]:
    """What was kept with each of `more` that pays on top of it, and its place among `runs`.

    `last` is the place of what was kept before them. One that does not pay is in the versions
    after it as well, so that these say nothing.
    """
    for one in more:
        trial = judged(one, runs, last)
        if trial is None:
            break
        trials = tuple(trial if each.fix == trial.fix else each for each in tried.trials)
        tried = replace(tried, trials=trials)
        if not trial.kept:
            break
        tried = replace(tried, patch=one.written.patch, sources=one.written.contents)
        last += 1
    return tried, last


def _too_long(tried: Tried, more: list[Addition], needed_s: float) -> Tried:
    """The trials, of which some say what whole runs would have taken."""
    reason = f"what it saves no slice of steps shows, and whole runs would take {needed_s:.0f} s"
    left = {one.finding.id for one in more if one.finding.data.get("outside")}
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
        low=min(after),
        high=max(after),
        runs=(now[0], after[0], after[1], now[1]),
        reason="",
    )


def _listed(seconds: tuple[float, float]) -> str:
    return " and ".join(f"{one:.1f} s" for one in seconds)
