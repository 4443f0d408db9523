"""The patch confirmed for the whole training: by the ledger, then by plain runs of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.model import Event, Outcome, Patch, Run, Training
from trainperf.trial import Tried
from trainperf.trial.budget import Clock
from trainperf.whole_training.ledger import started_in, with_changes
from trainperf.whole_training.plain_runs import Changes, PlainRuns, plain_runs, with_runs


def confirm(
    tried: Tried,
    before: Training | None,
    run: Run,
    folder: Path,
    clock: Clock,
    on_event: Callable[[Event], None],
) -> tuple[Tried, Training | None]:
    """Return what stays kept, and the whole training with it.

    Where whole runs of the script fit into what `clock` has left they are made, and tell; else
    the ledger does. What fails in them, or makes every one of them longer, is not kept.
    """
    if before is None:
        return tried, None
    after = _expected(before, tried)
    if tried.stack is None or tried.patch is None:
        return tried, after

    def say(text: str, share: float | None) -> None:
        on_event({"e": "trial", "text": text, "fraction": share, "expected_s": None})

    patch = tried.patch
    changes = Changes(tried.sources, patch.environment, patch.arguments)
    runs = plain_runs(run, changes, after, folder, clock, say)
    if runs.failure or runs.slower:
        return _without(tried, runs), replace(before, runs=runs.seconds)
    return tried, with_runs(after, runs)


def _expected(before: Training, tried: Tried) -> Training:
    """The training with what was kept, by its ledger."""
    before = started_in(before, tried.start_s)
    return with_changes(before, tried.stack, not tried.passing)


def _without(tried: Tried, runs: PlainRuns) -> Tried:
    """The trials with nothing kept: the patch did not stand the whole training."""
    outcome, reason = Outcome.FAILED, f"in a plain run of the whole script it {runs.failure}"
    if runs.slower:
        outcome = Outcome.LOSES
        with_it, without = _listed(runs.after), _listed(runs.before)
        reason = f"the whole script took {with_it} with it, {without} without"
    trials = tuple(
        replace(one, kept=False, outcome=outcome, reason=reason) if one.kept else one
        for one in tried.trials
    )
    root = "" if tried.patch is None else tried.patch.root
    return replace(tried, trials=trials, stack=None, patch=Patch("", (), root=root), sources={})


def _listed(seconds: tuple[float, ...]) -> str:
    return " and ".join(f"{one:.1f} s" for one in seconds)
