"""The whole script in turns, as it is and changed, by a starter that runs nothing."""

from dataclasses import dataclass, field

import pytest

from trainperf.model import Outcome, Patch, Run
from trainperf.patch.patch import Written
from trainperf.run.launch import Finished
from trainperf.trial.budget import END_S, Clock
from trainperf.whole_training.plain_runs import (
    PlainRuns,
    Script,
    Version,
    control_of,
    judged,
    plain_runs,
)

RUN = Run(("python", "train.py"), "/w", "train.py", env={"MINE": "1"})
AS_IS = Version(10.0)
PATCH = Patch("", (), environment={"OMP_NUM_THREADS": "2"}, arguments=("--bf16", "True"))
CHANGED = Version(4.0, Written(PATCH, {"/w/train.py": b"faster"}))
MORE = Version(2.0, Written(Patch("", ()), {"/w/train.py": b"faster still"}))
UNKNOWN = [Version(None), Version(None, CHANGED.written)]


@dataclass
class Starter:
    """Ends each run after what is given for it; its clock stands still but for that."""

    ends: list[Finished]
    now: float = 0.0
    seen: list[tuple[Run, float]] = field(default_factory=list)

    def __call__(self, run, folder, limit_s, interrupted):
        self.seen.append((run, limit_s))
        ended = self.ends[len(self.seen) - 1]
        self.now += limit_s if ended.seconds is None else ended.seconds
        return ended

    @property
    def sources(self):
        return [next(iter(run.sources.values()), b"") for run, _ in self.seen]


def took(*seconds):
    return [Finished(one, 0, "") for one in seconds]


BROKEN = Finished(3.0, 1, "Traceback\n  …\nValueError: no\n")


def clock_of(starter, left, interrupted=lambda: False):
    return Clock(left + END_S, interrupted, lambda: starter.now)


def made(ends, tmp_path, versions=(AS_IS, CHANGED), left=100.0, interrupted=lambda: False):
    starter = Starter(ends)
    clock = clock_of(starter, left, interrupted)
    return plain_runs(Script(RUN, tmp_path, clock, lambda *_: None, starter), versions), starter


def test_the_script_runs_as_it_is_changed_changed_and_as_it_is(tmp_path):
    runs, starter = made(took(10.0, 4.0, 4.2, 10.4), tmp_path)
    assert runs == PlainRuns(((10.0, 10.4), (4.0, 4.2)))
    assert starter.sources == [b"", b"faster", b"faster", b""]
    threads = [run.env.get("OMP_NUM_THREADS") for run, _ in starter.seen]
    assert threads == [None, "2", "2", None]
    commands = [run.command[2:] for run, _ in starter.seen]
    assert commands == [(), PATCH.arguments, PATCH.arguments, ()]
    assert all(run.env["MINE"] == "1" for run, _ in starter.seen)
    caches = {run.env["TORCHINDUCTOR_CACHE_DIR"] for run, _ in starter.seen}
    assert len(caches) == 4, "what a changed run compiles, the next must not find"


def test_a_script_of_unknown_length_may_use_its_share_of_the_time(tmp_path):
    runs, starter = made([Finished(None, -9, "")], tmp_path, UNKNOWN)
    assert starter.seen[0][1] == 25.0
    assert runs == PlainRuns(reason="the whole script did not end in the time that was left")


def test_a_run_that_would_not_end_in_time_is_not_begun(tmp_path):
    runs, starter = made(took(25.0, 24.0, 30.0), tmp_path, UNKNOWN)
    assert len(starter.seen) == 3
    assert runs.reason == "out of budget after 3 of 4 whole runs"
    assert (runs.seconds, runs.once) == (((25.0, 25.0), (24.0, 24.0)), True)  # tells what is clear


def test_ctrl_c_ends_it(tmp_path):
    runs, starter = made([], tmp_path, interrupted=lambda: True)
    assert (starter.seen, runs.reason) == ([], "interrupted after 0 of 4 whole runs")


def test_a_changed_script_that_fails_is_told_from_one_that_always_did(tmp_path):
    runs, _ = made([*took(10.0), BROKEN], tmp_path)
    assert runs == PlainRuns(failure="ended with exit status 1: ValueError: no")
    runs, _ = made([BROKEN], tmp_path)
    assert (runs.failure, runs.seconds) == ("", ())
    assert runs.reason.startswith("the script as it is ended with exit status 1")
    killed = Finished(3.0, -11, "")
    assert made([*took(10.0), killed], tmp_path)[0].failure == "was killed by SIGSEGV"


def test_what_stands_below_a_version_that_fails_is_still_compared(tmp_path):
    versions = (AS_IS, CHANGED, MORE)
    runs, starter = made([*took(10, 4), BROKEN, *took(4.1, 10.1)], tmp_path, versions)
    assert runs.seconds == ((10, 10.1), (4, 4.1))
    assert runs.failure == "ended with exit status 1: ValueError: no"
    assert starter.sources == [b"", b"faster", b"faster still", b"faster", b""]


def printing(loss, *seconds):
    return [Finished(one, 0, f"loss: {loss}\n") for one in seconds]


@pytest.mark.parametrize(
    ("loss", "outcome", "same"),
    [("0.50", Outcome.KEPT, True), ("0.90", Outcome.LOSSES_DIFFER, False)],
)
def test_another_run_of_the_script_is_judged_by_what_it_prints(tmp_path, loss, outcome, same):
    run = Run(("python3", "train.py", "--fast"), "/w", "train.py", env={"MINE": "2"})
    ends = [*printing("0.50", 10.0), *printing(loss, 4.0, 4.2), *printing("0.50", 10.4)]
    runs, starter = made(ends, tmp_path, (AS_IS, Version(4.0, run=run)))
    assert [one.env["MINE"] for one, _ in starter.seen] == ["1", "2", "2", "1"]
    assert starter.seen[1][0].command == run.command
    trial = judged("fast", runs, 0, by_losses=True)
    assert (trial.outcome, trial.same, trial.basis) == (outcome, same, "whole runs")
    assert (trial.low, trial.high) == pytest.approx((10.0 / 4.2, 10.4 / 4.0))
    assert judged("fast", runs, 0).outcome is Outcome.KEPT, "what trains the same is not asked"


def test_the_script_against_itself_by_whole_runs():
    control = control_of([10.0, 11.0])
    assert (control.low, control.high, control.floor) == pytest.approx((1 / 1.1, 1.1, 0.1))
    assert control_of([10.0, 10.1]).floor == 0.05
    assert control_of([10.0]) is None
