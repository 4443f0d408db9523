"""When a check passes, fails, or cannot tell, by the times of its runs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from trainperf.check.judging import judge
from trainperf.check.running import Repeat, Speed

LIMIT = 0.05
QUIET = Speed(0.05, 0.05)


def runs(*fastest: float, **values: Any) -> tuple[Repeat, ...]:
    first = Repeat(fastest[0], fastest[0], noise=0.01, agreement=0.01, speed=QUIET)
    return tuple(
        replace(first, **{"fastest_s": one, "mean_s": one * 1.02, **values}) for one in fastest
    )


BASE = runs(1.0, 1.01, 1.015)


# ------------------------------------------------------------------------- not an alarm


@pytest.mark.parametrize(
    "after",
    [
        (1.0,),
        (0.5,),
        (1.02,),  # another process of the same script
        (1.05,),  # the limit itself
        (1.9, 1.8, 1.03),  # neighbours in all runs but one
    ],
)
def test_an_unchanged_script_passes(after: tuple[float, ...]) -> None:
    judged = judge(BASE, runs(*after), LIMIT)
    assert (judged.outcome, judged.reason) == ("passed", "")


def test_a_machine_that_got_slower_is_no_alarm() -> None:
    judged = judge(BASE, runs(1.12, 1.12, 1.12, speed=Speed(0.056, 0.056)), LIMIT)
    assert judged.outcome == "undecided"
    assert judged.reason == "the machine itself was 12 % slower"
    assert judged.machine == pytest.approx(0.12)


def test_steps_shorter_by_a_smaller_batch_are_compared_by_the_sample() -> None:
    judged = judge(runs(1.0, 1.0, batch_size=32), runs(0.5, batch_size=16), LIMIT)
    assert (judged.outcome, judged.by_samples) == ("passed", True)
    assert judged.change == pytest.approx(0.0)


# ---------------------------------------------------------------------------- an alarm


@pytest.mark.parametrize("after", [(1.1, 1.11, 1.1), (1.09, 1.1, 1.4, 1.095), (2.0, 2.0)])
def test_a_regression_in_every_run_is_an_alarm(after: tuple[float, ...]) -> None:
    assert judge(BASE, runs(*after), LIMIT).outcome == "failed"


@pytest.mark.parametrize("slower", [0.96, 1.0, 1.04])
def test_what_the_calibration_varies_by_does_not_excuse_a_regression(slower: float) -> None:
    speed = Speed(0.05 * slower, 0.05 * slower)
    assert judge(BASE, runs(1.1, 1.1, 1.1, speed=speed), LIMIT).outcome == "failed"


def test_more_time_for_each_sample_is_an_alarm_though_a_step_takes_less() -> None:
    after = runs(0.6, 0.6, 0.6, batch_size=16)
    assert judge(runs(1.0, 1.0, batch_size=32), after, LIMIT).outcome == "failed"


# -------------------------------------------------------------------------- cannot tell


def test_one_run_is_not_enough_for_an_alarm() -> None:
    judged = judge(BASE, runs(1.5), LIMIT)
    assert (judged.outcome, judged.again) == ("undecided", True)
    assert judged.reason == "there was time for one run only"


def test_a_machine_that_is_much_slower_may_slow_a_script_more_than_the_calibration() -> None:
    judged = judge(BASE, runs(1.22, 1.22, 1.22, speed=Speed(0.0575, 0.0575)), LIMIT)
    assert judged.outcome == "undecided"


@pytest.mark.parametrize(
    ("hosts", "change", "outcome"),
    [
        (("runner-1", "boot-1"), 1.1, "failed"),
        (("a1b2c3", "boot-1"), 1.1, "failed"),  # another container of the same machine
        (("runner-1", "boot-2"), 1.1, "failed"),  # the same machine, started anew
        (("runner-2", "boot-2"), 1.1, "undecided"),
        (("runner-2", "boot-2"), 1.3, "failed"),
        ((), 1.1, "failed"),
    ],
)
def test_against_a_baseline_of_another_host_an_alarm_needs_more(
    hosts: tuple[str, ...], change: float, outcome: str
) -> None:
    before = runs(1.0, 1.01, 1.015, hosts=("runner-1", "boot-1"))
    judged = judge(before, runs(change, change, change, hosts=hosts), LIMIT)
    assert judged.outcome == outcome
    if outcome == "undecided":
        assert judged.reason == "the baseline is of another host, which may differ by 10 %"


def test_a_faster_machine_may_hide_a_regression() -> None:
    judged = judge(BASE, runs(1.0, speed=Speed(0.04, 0.04)), LIMIT)
    assert judged.outcome == "undecided"
    assert "20 % faster, which may hide a regression" in judged.reason


def test_a_baseline_of_one_plain_report_goes_by_how_its_own_blocks_agree() -> None:
    assert judge(runs(1.0), runs(1.01), LIMIT).outcome == "passed"
    assert judge(runs(1.0, agreement=0.3), runs(1.01), LIMIT).outcome == "undecided"


@pytest.mark.parametrize(
    ("busy", "outcome"), [(1.0, "failed"), (2.0, "undecided"), (None, "undecided")]
)
def test_the_machine_is_judged_on_as_many_cores_as_the_script_keeps_busy(
    busy: float | None, outcome: str
) -> None:
    """A neighbour on the other core does not slow a script on one core."""
    after = runs(1.1, 1.1, 1.1, cores=busy, speed=Speed(0.05, 0.09))
    assert judge(BASE, after, LIMIT).outcome == outcome


# -------------------------------------------------------------------------------- noise


@pytest.mark.parametrize(
    ("cores", "others", "outcome"),
    [
        (0.5, 1.5, "undecided"),  # it took twice as long, on half a core: it waited for one
        (0.5, 0.1, "failed"),  # nobody else was there: it sleeps, or waits for a disk
        (0.8, 1.5, "undecided"),  # it computed more, as caches are shared, and waited
        (1.0, 1.5, "failed"),
        (None, 1.5, "failed"),
    ],
)
def test_a_script_that_waited_for_a_core_did_not_get_slower(
    cores: float | None, others: float, outcome: str
) -> None:
    """Measured with six busy programs on two cores: 6.9 ms against 3.2 ms, evenly."""
    before = runs(1.0, 1.01, cores=1.0)
    after = runs(2.0, 2.01, 2.02, cores=cores, others=others)
    judged = judge(before, after, LIMIT)
    assert judged.outcome == outcome
    if outcome == "undecided":
        assert judged.reason == "other programs kept 1.5 cores busy"


def test_what_computes_many_times_as_much_is_slower_whoever_else_is_there() -> None:
    """Measured: run_eagerly=True on two cores that others kept busy, 11.4 ms against 0.95 ms."""
    before = runs(1.0, 1.1, 1.2, cores=0.5, others=1.5, agreement=0.37)
    after = runs(12.0, 30.0, 20.0, cores=0.38, others=1.6, agreement=2.2)
    assert judge(before, after, LIMIT).outcome == "failed"
    waited = runs(2.0, 2.2, 2.1, cores=0.38, others=1.6, agreement=0.4)
    assert judge(before, waited, LIMIT).outcome == "undecided"


# ----------------------------------------------------------------------- false alarms


@pytest.mark.parametrize("spread", [0.01, 0.02, 0.03, 0.05, 0.08])
def test_of_a_hundred_checks_of_a_script_whose_runs_vary_two_at_most_are_false_alarms(
    spread: float,
) -> None:
    dice = random.Random(7)

    def drawn(count: int) -> tuple[Repeat, ...]:
        return runs(*(dice.gauss(1.0, spread) for _ in range(count)))

    many = 1000
    alarms = sum(judge(drawn(3), drawn(3), LIMIT).outcome == "failed" for _ in range(many))
    assert alarms <= 0.02 * many
