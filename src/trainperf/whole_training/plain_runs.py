"""Plain runs of the whole script, in turns: as it is, changed, with more than that."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainperf.model import Control, Finding, Outcome, Patch, Run, Trial
from trainperf.patch.patch import Written
from trainperf.run.caches import filled, private
from trainperf.run.launch import Finished, run_to_its_end
from trainperf.trial.budget import Clock, Say
from trainperf.trial.legs.faults import how_ended
from trainperf.trial.outcome import FOR_LIFE
from trainperf.trial.parity import Parity, judge_printed
from trainperf.trial.repeat import MARGIN

CLEARLY = 1.05
"""The slower run with a change must be so many times as fast as the quicker one without."""
WHOLE_RUNS = "in plain runs of the whole script"
"""How it was measured."""
AS_IT_IS = Written(Patch("", ()), {})
Start = Callable[[Run, Path, float, Callable[[], bool]], Finished]


@dataclass(frozen=True)
class Version:
    """A version of the script: as it is, with the edits that are `written`, or another `run` of it.

    `expected_s` are the seconds of a whole run by the ledger, or by an observed one, None where
    neither tells. Each version has the changes of the version before it; `adds` is the finding that
    it adds, where that is one.
    """

    expected_s: float | None
    written: Written = AS_IT_IS
    adds: Finding | None = None
    run: Run | None = None


@dataclass(frozen=True)
class PlainRuns:
    """Whole runs of some versions: seconds of the first and the last of each, and what they print.

    `reason` says why there are not all. `failure` says how a version failed where the script as
    it is did not: the first one, but for that, which is not in `seconds`.
    """

    seconds: tuple[tuple[float, float], ...] = ()
    reason: str = ""
    failure: str = ""
    once: bool = False  # then the one run of each is its first and its last
    printed: tuple[tuple[str, str], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Script:
    """The whole script, to be run plainly in a folder as long as there is time."""

    run: Run
    folder: Path
    clock: Clock
    say: Say
    start: Start = run_to_its_end

    def ended(self, version: Version, name: str, limit_s: float) -> Finished:
        """Run a version to its end, or for so many seconds."""
        run, folder = version.run or self.run, self.folder / name
        patch = version.written.patch
        given, caches = os.environ | run.env, folder / "caches"
        changed = replace(
            run,
            command=(*run.command, *patch.arguments),
            sources=version.written.contents or run.sources,
            env={**run.env, **private(given, caches), **patch.environment},
        )
        with filled(given, caches):
            return self.start(changed, folder, limit_s, self.clock.interrupted)


def plain_runs(script: Script, versions: Sequence[Version], once: bool = False) -> PlainRuns:
    """Run the whole script plainly, each version once and then once more, in reverse.

    What drifts falls on all alike; it does not where each is run but `once`. The first of the
    versions is the script as it is. Where the ledger says that they do not fit into what `clock`
    has left nothing is started; where the length of the training is not known, each run may take
    its share of it. What a version compiles is compiled anew in each of its runs.
    """
    needed, clock = needed_s(versions, once), script.clock
    if needed is not None and needed > clock.left:
        return PlainRuns(reason=f"whole runs would take {needed:.0f} s")
    order, count, failure = range(len(versions)), len(versions), ""  # of which so many stand
    turns = [*order] if once else [*order, *reversed(order)]
    runs: list[list[Finished]] = [[] for _ in versions]
    for number, which in enumerate(turns):
        if which >= count:  # it failed
            continue
        limit = clock.left / (len(turns) - number) if needed is None else clock.left
        over = f"{clock.reason} after {number} of {len(turns)} whole runs"
        ended = None
        if not (clock.over() or limit < _usual(runs, which)):
            what = "changed" if which else "as it is"
            script.say(f"the whole script, {what}", number / len(turns))
            ended = script.ended(versions[which], f"whole-{number}", limit)
            over = "the whole script did not end in the time that was left"
        if ended is None or ended.seconds is None:
            if not all(runs[:count]):
                return PlainRuns(reason=over)
            return _of(runs[:count], over, once=True)  # one run of each tells what is clear
        if ended.status:
            failure, count = how_ended(ended.status, ended.tail), which
            if not which:
                return PlainRuns(reason=f"the script as it is {failure} in a plain run")
            if which == 1:
                break
        runs[which].append(ended)
    kept = [made for made in runs[:count] if len(made) > (not once)]
    return replace(_of(kept, "", once), failure=failure)


def _of(runs: Sequence[Sequence[Finished]], reason: str, once: bool) -> PlainRuns:
    pairs = [(made[0], made[0 if once else -1]) for made in runs]
    seconds = tuple((first.seconds or 0.0, last.seconds or 0.0) for first, last in pairs)
    printed = tuple((first.tail, last.tail) for first, last in pairs)
    return PlainRuns(seconds, reason, once=once, printed=printed)


def judged(
    name: str, runs: PlainRuns, last: int, bound: float | None = None, by_losses: bool = False
) -> Trial | None:
    """The trial of a change on top of the version that is `last` among `runs`; None without one.

    Its interval spans the ratios of each run without it to each with it; one run each has none.
    What may train something else is judged `by_losses`, as far as the script prints them.
    """
    if last + 1 >= len(runs.seconds):
        if not runs.failure:
            return None
        reason = f"in a plain run of the whole script it {runs.failure}"
        return Trial(name, Outcome.FAILED, reason, bound=bound, basis="whole runs")
    without, with_it = runs.seconds[last : last + 2]
    low, high = min(without) / max(with_it), max(without) / min(with_it)
    clearly = FOR_LIFE if runs.once else CLEARLY
    parity = judge_printed(*runs.printed[last : last + 2]) if by_losses else Parity(None, "")
    outcome, reason = Outcome.NO_EFFECT, ""
    if parity.ok is False:
        outcome, reason = Outcome.LOSSES_DIFFER, parity.text
    elif low > clearly:
        outcome = Outcome.KEPT
        reason = "its losses could not be compared" if by_losses and not parity.ok else ""
    elif high < 1 / clearly:
        outcome = Outcome.SLOWER
    figures = sum(without) / sum(with_it), None if runs.once else low, None if runs.once else high
    trial = Trial(name, outcome, reason, *figures, pairs=1 if runs.once else len(with_it))
    trial = replace(trial, parity=parity.text, same=parity.ok, kept=outcome is Outcome.KEPT)
    return replace(trial, bound=bound, basis="whole runs", note=WHOLE_RUNS)


def control_of(seconds: Sequence[float]) -> Control | None:
    """The script against itself, by its plain runs as it is; None where there is but one."""
    if len(seconds) < 2:
        return None
    spread = max(seconds) / min(seconds)
    least = round(max(CLEARLY, spread) - 1, 6)
    return Control(seconds[0] / seconds[-1], 1 / spread, spread, len(seconds) // 2, 0, least)


def needed_s(versions: Sequence[Version], once: bool = False) -> float | None:
    """Seconds that all the runs take, by the ledger; None where it does not know."""
    known = [version.expected_s for version in versions if version.expected_s is not None]
    return (2 - once) * MARGIN * sum(known) if len(known) == len(versions) else None


def _usual(runs: Sequence[Sequence[Finished]], which: int) -> float:
    """Seconds of the next run by those before it; one with more changes may be quicker."""
    if runs[which]:
        return runs[which][0].seconds or 0.0
    return min((run.seconds or 0.0 for run in runs[which - 1]), default=0.0) / 2 if which else 0.0
