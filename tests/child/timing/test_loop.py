"""The plan of phases, on a clock that only the test moves."""

import pytest

from kit.child import Clock
from trainperf.child.timing import loop
from trainperf.child.timing.budget import MEASURE_SHARE, Budget
from trainperf.child.timing.loop import (
    DONE,
    INPUT,
    PROFILE,
    REAL,
    RESIDENT,
    ROUNDS,
    WARM_UP,
    Plan,
)


def run(plan, clock, takes):
    """Run a loop in which `takes` says of each block how long its steps take; its blocks."""
    blocks = []
    while plan.phase != DONE:
        block = plan.block
        if plan.phase == INPUT:
            clock.now += block.seconds
            plan.advance()
            continue
        plan.begin_if_settled()
        seconds = takes(block)
        clock.now += seconds
        if plan.step_ended(seconds):
            if block.phase != WARM_UP:
                plan.timed(block.phase, clock.now - block.started, block.steps)
            blocks.append(block)
            plan.advance()
    return blocks


def bursty(plan, clock):
    """Run a loop whose real steps take up to four times as long from round to round."""
    run(plan, clock, lambda block: 0.01 * (1 + block.index % 4) if block.phase == REAL else 0.01)


def profiles(slow):
    """The profiles that are taken where `slow` says how long the steps of each take."""
    clock = Clock()
    plan = Plan(clock, Budget(BUDGET, 0.0))
    blocks = run(plan, clock, lambda block: slow(block.index) if block.phase == PROFILE else 0.01)
    return [block.index for block in blocks if block.phase == PROFILE]


BUDGET = {"budget_s": 180.0, "began": 1000.0}


def test_a_profile_on_which_a_burst_fell_is_taken_again_at_the_end():
    assert profiles(lambda index: 0.012) == [0]
    assert profiles(lambda index: 0.012 if index else 0.09) == [0, 1]
    assert profiles(lambda index: 0.09) == [0, 1, 2]  # that is what profiling costs here


def test_times_that_never_settle_end_with_their_share_of_the_budget():
    clock = Clock()
    bursty(Plan(clock, Budget(BUDGET, 0.0)), clock)
    by = MEASURE_SHARE * BUDGET["budget_s"]
    assert by - 5.0 < clock.now - 1000.0 < by + 5.0


@pytest.mark.parametrize(
    ("takes", "phases"),
    [
        (7.0, [WARM_UP, PROFILE, REAL, RESIDENT, REAL]),
        (30.0, [WARM_UP, PROFILE]),  # two steps to know it, and one of what they pass in
    ],
)
def test_a_step_of_many_seconds_is_sampled_first_and_timed_once(takes, phases):
    clock = Clock()
    blocks = run(Plan(clock, Budget({**BUDGET, "trials": True}, 0.0)), clock, lambda block: takes)
    assert [block.phase for block in blocks] == phases
    assert all(block.steps == 1 for block in blocks[1:])


@pytest.mark.parametrize("queues", [False, True])
def test_no_interval_is_estimated_step_by_step(monkeypatch, queues):
    asked, estimate = [], loop.estimate
    monkeypatch.setattr(loop, "estimate", lambda times: asked.append(times) or estimate(times))
    clock = Clock()
    plan = Plan(clock, Budget(BUDGET, 0.0), phases=(REAL,))
    plan.queues = queues
    blocks = run(plan, clock, lambda block: 0.01)
    assert len(asked) < 5 * len(blocks) < sum(block.steps for block in blocks) / 2


@pytest.mark.parametrize(("left", "most"), [(60, 36), (400, 210)])
def test_a_loop_that_ends_soon_keeps_half_of_its_steps_for_what_comes_after(left, most):
    clock = Clock()
    began = clock.now
    plan = Plan(clock, Budget(BUDGET, 0.0), phases=(REAL,), left=lambda: left)
    bursty(plan, clock)
    assert plan.phase == DONE
    assert (clock.now - began) / 0.01 < 3 * most


def test_replayed_steps_that_are_far_quicker_do_not_use_a_loop_up_that_counts_its_steps():
    """A loader that takes ten times as long as the model, for six hundred steps."""
    clock, made, total = Clock(), 0, 600
    plan = Plan(clock, Budget(BUDGET, 0.0), phases=(REAL, RESIDENT), left=lambda: total - made)
    rounds = 0
    while plan.phase != DONE and made < total:
        block = plan.block
        plan.begin_if_settled()
        seconds = 0.002 if block.phase == RESIDENT else 0.02
        clock.now += seconds
        made += 1
        if plan.step_ended(seconds):
            if block.phase != WARM_UP:
                plan.timed(block.phase, clock.now - block.started, block.steps)
                rounds += block.phase == RESIDENT
            plan.advance()
    assert plan.phase == DONE
    assert rounds >= ROUNDS
    assert total - made >= 0.4 * total


# The one clock of a diagnosis, as the observed process reads it.

ASKED = {"began": 1000.0, "budget_s": 180.0, "trials": True}


def test_a_limit_that_the_user_set_holds():
    budget = Budget({**ASKED, "measure_s": 5.0, "extra_s": 2.0}, 0.0)
    assert (budget.measure_by(1020.0), budget.extra_by(1030.0)) == (1025.0, 1032.0)
    assert "`extra` allows 2 s" in budget.lacking(30.0, 1032.0)


@pytest.mark.parametrize(("at", "takes"), [(1098.0, 2.0), (1098.0, 40.0), (1170.0, 600.0)])
def test_the_budget_that_is_named_would_do(at, takes):
    said = Budget(ASKED, 0.0).lacking(takes, at)
    minutes = int(said.rpartition("--budget ")[2].partition("min")[0])
    assert minutes > 3
    longer = Budget({**ASKED, "budget_s": 60.0 * minutes}, 0.0)
    assert at + takes <= longer.extra_by(at)
