import pytest

from trainperf.trial.budget import END_S, Clock, Costs, budget_needed


def costs(start_s=10.0, step_s=0.1, epoch_s=60.0, cores=2.0, slots=10):
    return Costs(start_s, step_s, epoch_s, cores, slots)


def test_the_budget_that_would_be_needed_suffices_and_is_as_it_is_printed():
    for candidates in (1, 3, 8, 12):
        for slots in (10, 2, 1):
            one = costs(slots=slots)
            needed = budget_needed(25.0, one, candidates)
            assert needed % (10 if needed <= 90 else 60) == 0
            assert one.trying(candidates) <= needed - 25.0 - END_S


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_clock_keeps_the_end_free_for_the_report():
    time = Time()
    clock = Clock(110.0, lambda: False, time)
    assert clock.left == pytest.approx(10.0 - END_S)
    assert not clock.over()
    time.now = 110.0 - END_S
    assert clock.over()
    assert clock.left == 0.0
