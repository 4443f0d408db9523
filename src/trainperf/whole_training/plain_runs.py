"""The patch confirmed by plain runs of the whole script, in turns with the script as it is."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.model import Run, Training
from trainperf.run.caches import filled, private
from trainperf.run.plain import Finished, run_to_its_end
from trainperf.trial.budget import Clock
from trainperf.trial.legs.processes import signal_name

TURNS = "ABBA"
"""The script as it is (A) and with the changes (B): what drifts falls on both alike."""
MARGIN = 1.15
"""A whole run may take so much longer than the ledger says: what follows the last step."""

Say = Callable[[str, float | None], None]
Start = Callable[[Run, Path, float, Callable[[], bool]], Finished]


@dataclass(frozen=True)
class PlainRuns:
    """Plain runs in the order of `TURNS`, in seconds; `reason` says why there are not all.

    `failure` says how the changed script failed where the script as it is did not.
    """

    seconds: tuple[float, ...] = ()
    reason: str = ""
    failure: str = ""

    @property
    def before(self) -> tuple[float, ...]:
        """The runs of the script as it is."""
        return self._of("A")

    @property
    def after(self) -> tuple[float, ...]:
        """The runs with the changes."""
        return self._of("B")

    @property
    def slower(self) -> bool:
        """Whether each run with the changes took longer than each without."""
        return bool(self.seconds) and min(self.after) > max(self.before)

    def _of(self, turn: str) -> tuple[float, ...]:
        return tuple(one for one, whose in zip(self.seconds, TURNS, strict=False) if whose == turn)


@dataclass(frozen=True)
class Changes:
    """The changes to a script: text of source files by path, variables, words of the command."""

    sources: Mapping[str, bytes]
    environment: Mapping[str, str]
    arguments: tuple[str, ...] = ()


def plain_runs(
    run: Run,
    changes: Changes,
    expected: Training,
    folder: Path,
    clock: Clock,
    say: Say,
    start: Start = run_to_its_end,
) -> PlainRuns:
    """Run the whole script plainly, as it is and changed, in turns, if there is time for it.

    `expected` is its ledger: where that does not fit into what `clock` has left nothing is
    started. Where the length of the training is not known, the first run may take a quarter of
    it. What a changed script compiles is compiled anew in each of its runs, as a user's first
    run does.
    """
    needed = _needed(expected)
    if needed is not None and needed > clock.left:
        return PlainRuns(reason=f"whole runs would take {needed:.0f} s")
    seconds: list[float] = []
    for number, turn in enumerate(TURNS):
        left = len(TURNS) - number
        limit = clock.left / left if needed is None else clock.left
        if clock.over() or (seconds and limit < _usual(seconds, turn)):
            return PlainRuns(reason=f"{clock.reason} after {number} of {left + number} whole runs")
        say(f"the whole script, {'as it is' if turn == 'A' else 'changed'}", number / len(TURNS))
        own = folder / f"whole-{number}"
        changed = _changed(run, changes if turn == "B" else None, own)
        with filled(os.environ | run.env, own / "caches"):
            ended = start(changed, own, limit, clock.interrupted)
        if ended.seconds is None:
            return PlainRuns(reason="the whole script did not end in the time that was left")
        if ended.status:
            how = _how(ended)
            if turn == "B":
                return PlainRuns(failure=how)
            return PlainRuns(reason=f"the script as it is {how} in a plain run")
        seconds.append(ended.seconds)
    return PlainRuns(tuple(seconds))


def with_runs(training: Training, runs: PlainRuns) -> Training:
    """The training with the seconds of its plain runs in place of those of its ledger.

    Without plain runs it says why they do not confirm it.
    """
    if not runs.seconds:
        return replace(training, reason=training.reason or runs.reason)
    return replace(
        training,
        basis="whole runs",
        seconds_now=statistics.fmean(runs.before),
        seconds_after=statistics.fmean(runs.after),
        low=min(runs.after),
        high=max(runs.after),
        runs=runs.seconds,
        reason="",
    )


def _needed(expected: Training) -> float | None:
    """Seconds that all the runs take, by the ledger; None where it does not know."""
    if expected.seconds_now is None:
        return None
    after = expected.seconds_now if expected.seconds_after is None else expected.seconds_after
    return MARGIN * sum(expected.seconds_now if turn == "A" else after for turn in TURNS)


def _usual(seconds: list[float], turn: str) -> float:
    """Seconds of the next run by those before it; one with the changes may be quicker."""
    return seconds[0] if turn == "A" else min(seconds) / 2


def _changed(run: Run, changes: Changes | None, folder: Path) -> Run:
    own = private(os.environ | run.env, folder / "caches")
    env = {**run.env, **own}
    if changes is None:
        return replace(run, env=env)
    return replace(
        run,
        command=(*run.command, *changes.arguments),
        sources=dict(changes.sources),
        env=env | dict(changes.environment),
    )


def _how(ended: Finished) -> str:
    if ended.status < 0:
        return f"was killed by {signal_name(-ended.status)}"
    last = ended.tail.strip().rpartition("\n")[2][:200]
    return f"ended with exit status {ended.status}" + (f": {last}" if last else "")
