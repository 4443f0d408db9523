"""The whole script in turns, as it is and changed, by a starter that runs nothing."""

from dataclasses import dataclass, field, replace

import pytest

from trainperf.model import Length, Run, Training
from trainperf.run.plain import Finished
from trainperf.trial.budget import END_S, Clock
from trainperf.whole_training.plain_runs import Changes, PlainRuns, plain_runs, with_runs

RUN = Run(("python", "train.py"), "/w", "train.py", env={"MINE": "1"})
CHANGES = Changes({"/w/train.py": b"faster"}, {"OMP_NUM_THREADS": "2"}, ("--bf16", "True"))
KNOWN = Training(Length(100, "100 steps"), seconds_now=10.0, seconds_after=4.0)
UNKNOWN = Training(None, reason="how often `while True` turns is not known")


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


def took(*seconds):
    return [Finished(one, 0, "") for one in seconds]


def made(ends, expected=KNOWN, left=100.0, tmp_path=None, interrupted=lambda: False):
    starter = Starter(ends)
    clock = Clock(left + END_S, interrupted, lambda: starter.now)
    return plain_runs(RUN, CHANGES, expected, tmp_path, clock, lambda *_: None, starter), starter


def test_what_does_not_fit_is_not_started(tmp_path):
    runs, starter = made([], left=30.0, tmp_path=tmp_path)
    assert starter.seen == []
    assert runs == PlainRuns(reason="whole runs would take 32 s")


def test_the_script_runs_as_it_is_changed_changed_and_as_it_is(tmp_path):
    runs, starter = made(took(10.0, 4.0, 4.2, 10.4), tmp_path=tmp_path)
    assert (runs.before, runs.after, runs.reason) == ((10.0, 10.4), (4.0, 4.2), "")
    sources = [bool(run.sources) for run, _ in starter.seen]
    assert sources == [False, True, True, False]
    threads = [run.env.get("OMP_NUM_THREADS") for run, _ in starter.seen]
    assert threads == [None, "2", "2", None]
    commands = [run.command[2:] for run, _ in starter.seen]
    assert commands == [(), CHANGES.arguments, CHANGES.arguments, ()]
    assert all(run.env["MINE"] == "1" for run, _ in starter.seen)
    caches = {run.env["TORCHINDUCTOR_CACHE_DIR"] for run, _ in starter.seen}
    assert len(caches) == 4, "what a changed run compiles, the next must not find"


def test_a_script_of_unknown_length_may_use_its_share_of_the_time(tmp_path):
    runs, starter = made([Finished(None, -9, "")], UNKNOWN, 100.0, tmp_path)
    assert starter.seen[0][1] == 25.0
    assert (runs.seconds, runs.reason) == (
        (),
        "the whole script did not end in the time that was left",
    )


def test_a_run_that_would_not_end_in_time_is_not_begun(tmp_path):
    runs, starter = made(took(25.0, 24.0, 30.0), UNKNOWN, 100.0, tmp_path)
    assert len(starter.seen) == 3
    assert runs.reason == "out of budget after 3 of 4 whole runs"


def test_ctrl_c_ends_it(tmp_path):
    runs, starter = made([], tmp_path=tmp_path, interrupted=lambda: True)
    assert (starter.seen, runs.reason) == ([], "interrupted after 0 of 4 whole runs")


def test_a_changed_script_that_fails_is_told_from_one_that_always_did(tmp_path):
    broken = Finished(3.0, 1, "Traceback\n  …\nValueError: no\n")
    runs, _ = made([*took(10.0), broken], tmp_path=tmp_path)
    assert runs.failure == "ended with exit status 1: ValueError: no"
    runs, _ = made([broken], tmp_path=tmp_path)
    assert (runs.failure, runs.seconds) == ("", ())
    assert runs.reason.startswith("the script as it is ended with exit status 1")
    killed = Finished(3.0, -11, "")
    assert made([*took(10.0), killed], tmp_path=tmp_path)[0].failure == "was killed by SIGSEGV"


@pytest.mark.parametrize(
    ("seconds", "slower"),
    [
        ((), False),
        ((10.0, 4.0, 4.2, 10.4), False),
        ((10.0, 10.2, 11.0, 10.4), False),
        ((10.0, 10.6, 11.0, 10.4), True),
    ],
)
def test_slower_is_what_each_run_with_the_changes_says(seconds, slower):
    assert PlainRuns(seconds).slower is slower


def test_the_runs_stand_in_place_of_the_ledger():
    whole = with_runs(KNOWN, PlainRuns((10.0, 4.0, 4.2, 10.4)))
    assert (whole.basis, whole.seconds_now, whole.seconds_after) == ("whole runs", 10.2, 4.1)
    assert (whole.low, whole.high) == (4.0, 4.2)


def test_a_ledger_that_no_runs_confirm_says_why():
    assert with_runs(KNOWN, PlainRuns(reason="no time")) == replace(KNOWN, reason="no time")
    assert with_runs(UNKNOWN, PlainRuns(reason="no time")) == UNKNOWN


def test_runs_that_were_not_made_are_no_runs():
    none = PlainRuns(reason="no time")
    assert (none.before, none.after, none.slower) == ((), (), False)
