"""How often a check runs the script: once where it passes, more before it fails."""

from __future__ import annotations

from collections.abc import Iterator

from reporters.samples import FAILED, INPUT_BOUND, timed
from trainperf.check import running
from trainperf.check.answering import Baseline, Limits, settled
from trainperf.check.running import Repeat, Runs, Speed
from trainperf.model import Diagnosis

LIMITS = Limits(0.05, None, strict=False)


def took(seconds: float) -> Diagnosis:
    return timed(INPUT_BOUND, real=(seconds, seconds * 1.01, seconds * 1.02, seconds * 1.5))


def saved() -> Baseline:
    values = {name: getattr(INPUT_BOUND, name) for name in INPUT_BOUND.__dataclass_fields__}
    return Baseline(**values, repeats=(Repeat(1.0, 1.1), Repeat(1.0, 1.1)))


class Script:
    """Takes so many seconds a step in its runs; each run takes ten seconds of the clock."""

    def __init__(self, *diagnoses: Diagnosis, speeds: tuple[float, ...] = (0.05,) * 9) -> None:
        self.diagnoses: Iterator[Diagnosis] = iter(diagnoses)
        self.speeds = iter(speeds)
        self.now = 0.0

    def observe(self) -> Diagnosis:
        self.now += 10.0
        return next(self.diagnoses)

    def speed(self) -> Speed:
        seconds = next(self.speeds)
        return Speed(seconds, seconds)

    def run(self, until: float = 1000.0) -> Runs:
        def over(runs: Runs) -> bool:
            return settled(saved(), runs, LIMITS)

        return running.run(self.observe, self.speed, until, 1, over, lambda: self.now)


def test_a_script_as_fast_as_its_baseline_runs_once() -> None:
    assert len(Script(took(1.0)).run().repeats) == 1


def test_the_first_undisturbed_run_ends_it() -> None:
    runs = Script(took(1.5), took(1.01)).run()
    assert [one.fastest_s for one in runs.repeats] == [1.5, 1.01]


def test_what_is_not_clear_is_run_five_times() -> None:
    runs = Script(*[took(one) for one in (1.1, 1.25, 1.3, 1.4, 1.5)]).run()
    assert len(runs.repeats) == 5


def test_no_run_begins_that_would_not_end_within_the_budget() -> None:
    assert len(Script(*[took(1.2)] * 3).run(until=29.0).repeats) == 2
    assert len(Script(*[took(1.2)] * 3).run(until=1.0).repeats) == 1


def test_the_least_disturbed_run_stands_for_all() -> None:
    runs = Script(took(1.3), took(1.2), took(1.25)).run()
    assert runs.diagnosis.step_s == took(1.2).step_s


def test_a_run_without_a_timed_step_ends_it() -> None:
    runs = Script(took(1.2), FAILED).run()
    assert runs.ended is FAILED
    assert len(runs.repeats) == 1


def test_a_baseline_whose_runs_are_apart_is_made_of_five() -> None:
    def made(*seconds: float) -> int:
        script = Script(*[took(one) for one in seconds])
        means = (script.observe, script.speed, 1000.0, running.BASELINE_RUNS, running.agree)
        return len(running.run(*means, lambda: script.now).repeats)

    assert made(1.0, 1.01, 1.02) == 3
    assert made(1.0, 1.01, 1.2, 1.0, 1.01) == 5
