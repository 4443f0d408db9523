import math
from dataclasses import replace

import pytest

import zoo
from trainperf.trial.budget import DRAWS, END_S, Clock, Costs, budget_needed, pass_steps


def costs(start_s=10.0, step_s=0.1, epoch_s=60.0, cores=2.0, slots=10):
    return Costs(start_s, step_s, epoch_s, cores, slots)


def test_the_budget_that_would_be_needed_suffices_and_is_as_it_is_printed():
    for candidates in (1, 3, 8, 12):
        for slots in (10, 2, 1):
            one = costs(slots=slots)
            needed = budget_needed(25.0, one, candidates)
            assert needed % (10 if needed <= 90 else 60) == 0
            assert one.trying(candidates) <= needed - 25.0 - END_S


def test_a_sampler_that_draws_without_end_has_passed_when_it_drew_most_items():
    evidence = zoo.load("config_object").evidence
    items = evidence.torch.loader.batch_size
    held = next(one.cardinality for one in evidence.stages if one.op == "dataset item")
    assert evidence.loop.epoch_steps > 10**8
    assert pass_steps(evidence) == math.ceil(DRAWS * held / items) < 1000
    without_length = replace(evidence, loop=replace(evidence.loop, epoch_steps=None))
    assert pass_steps(without_length) == pass_steps(evidence)
    usual = replace(evidence, loop=replace(evidence.loop, epoch_steps=held // items))
    assert pass_steps(usual) == 0


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
