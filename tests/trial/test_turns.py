import math
from dataclasses import replace

import pytest
from trainperf.trial.turns import (
    MAX_PAIRS,
    MIN_PAIRS,
    MOST_PAIRS,
    SLICE_S,
    Contest,
    Turns,
    beaten,
    can_wait,
    enough,
    is_told,
    settle_steps,
    slice_steps,
    take,
)

from trainperf.model import Ratio
from trainperf.model.run import Epoch
from trainperf.trial.legs.leg import LegFailed
from trainperf.trial.ratio import Pair
from trainperf.trial.slices import Slice


class Machine:
    """A clock that only slices move, and what ran on it, in order."""

    def __init__(self):
        self.now = 0.0
        self.ran = []

    def asked_at(self, seconds):
        return lambda: self.now >= seconds


class Steady:
    """A leg whose steps all take as long; `fails_at` is the number of its bad slice."""

    def __init__(self, machine, name, step_s=0.1, work_per_step=1.0, fails_at=None):
        self.machine = machine
        self.name = name
        self.step_s = step_s
        self.work_per_step = work_per_step
        self.waits_every = 1
        self.settles = True
        self.fails_at = fails_at
        self.slowest_s = 0.0
        self.asked_steps = []
        self.settled = []
        self.limits = []
        self.ended = False

    def run_slice(self, steps, settle, limit_s, asked):
        assert not self.ended
        assert settle >= 1 or not self.settles
        self.settled.append(settle)
        self.machine.ran.append(self.name)
        self.asked_steps.append(steps)
        self.limits.append(limit_s)
        if self.fails_at == len(self.asked_steps):
            raise LegFailed(f"{self.name} breaks")
        seconds = steps * self.step_s
        self.machine.now += seconds
        if asked():
            return None
        return Slice(seconds, steps, steps * self.work_per_step, 0.0)

    def end(self):
        self.ended = True


def after(count):
    return lambda contest: len(contest.pairs) >= count


def turns(machine, legs, settled, base=None, step_s=0.1, asked=lambda: False):
    base = base or Steady(machine, "base", step_s)
    return Turns(base, [Contest(leg) for leg in legs], step_s, asked, settled)


def run(made):
    return list(made.rounds())


def test_each_changed_slice_stands_between_two_of_the_unchanged_script():
    machine = Machine()
    legs = [Steady(machine, name) for name in "abc"]
    run(turns(machine, legs, after(3)))
    assert machine.ran[0::2] == ["base"] * 10
    assert len(machine.ran) == 19


def test_the_order_goes_back_and_forth():
    machine = Machine()
    legs = [Steady(machine, name) for name in "abc"]
    run(turns(machine, legs, after(3)))
    assert "".join(machine.ran[1::2]) == "abc" + "cba" + "abc"


def test_a_pair_holds_the_rates_of_the_slice_and_of_its_two_neighbours():
    machine = Machine()
    base = Steady(machine, "base", 0.1)

    class Slowing(Steady):
        def run_slice(self, *args):
            base.step_s += 0.1
            return super().run_slice(*args)

    made = turns(machine, [Slowing(machine, "a", 0.05)], after(1), base)
    run(made)
    (pair,) = made.contests[0].pairs
    assert (pair.changed, pair.before, pair.after) == pytest.approx((20.0, 10.0, 5.0))


def test_a_contest_that_is_decided_takes_no_more_turns():
    machine = Machine()
    legs = [Steady(machine, "early"), Steady(machine, "late")]
    made = turns(machine, legs, lambda one: len(one.pairs) >= (2 if one.leg.name[0] == "e" else 5))
    assert run(made) == [1, 2, 3, 4, 5]
    assert [len(one.pairs) for one in made.contests] == [2, 5]
    assert machine.ran.count("base") == 8


def test_a_leg_that_fails_is_ended_and_the_others_go_on():
    machine = Machine()
    legs = [Steady(machine, "a"), Steady(machine, "bad", fails_at=2), Steady(machine, "c")]
    made = turns(machine, legs, after(4))
    run(made)
    bad = made.contests[1]
    assert (bad.failure, bad.decided, len(bad.pairs)) == ("bad breaks", True, 1)
    assert [one.leg.ended for one in made.contests] == [False, True, False]
    assert [len(one.pairs) for one in made.contests] == [4, 1, 4]


def test_the_slice_after_one_that_failed_has_a_fresh_neighbour():
    machine = Machine()
    legs = [Steady(machine, "bad", fails_at=1), Steady(machine, "good")]
    run(turns(machine, legs, after(2)))
    assert machine.ran == ["base", "bad", "base", "good", "base", "good", "base"]


def test_when_the_unchanged_script_cannot_go_on_nothing_can():
    machine = Machine()
    base = Steady(machine, "base", fails_at=3)
    made = turns(machine, [Steady(machine, "a")], after(9), base)
    with pytest.raises(LegFailed, match="base breaks"):
        run(made)
    assert len(made.base_slices) == 2
    assert len(made.contests[0].pairs) == 1


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5, 0.8, 1.7])
def test_when_the_time_is_over_the_turns_end_at_once(seconds):
    machine = Machine()
    legs = [Steady(machine, name) for name in "ab"]
    asked = machine.asked_at(seconds)
    made = turns(machine, legs, after(100), asked=asked)
    run(made)
    assert len(machine.ran) == math.ceil(seconds / 0.3 - 1e-9)
    pairs = sum(len(one.pairs) for one in made.contests)
    assert pairs == max(0, (len(machine.ran) - 2) // 2)
    assert not any(one.failure for one in made.contests)


def test_a_slice_lasts_about_as_long_whatever_a_step_takes():
    for step_s in (0.001, 0.01, 0.05, 0.1):
        assert SLICE_S <= slice_steps(step_s) * step_s <= SLICE_S + 0.1
    assert slice_steps(0.4) == 2
    assert slice_steps(0.5) == slice_steps(30.0) == 1


def test_a_leg_whose_loop_takes_several_steps_a_turn_makes_fewer_turns():
    machine = Machine()
    many = Steady(machine, "many", step_s=0.1, work_per_step=10.0)
    made = turns(machine, [many], after(3), step_s=0.01)
    run(made)
    assert many.asked_steps == [3, 3, 3]
    assert made.base.asked_steps[0] == 30
    assert made.contests[0].pairs[0].log_ratio == pytest.approx(0.0)


def test_a_script_whose_own_loop_takes_several_steps_a_turn_is_measured_by_its_steps():
    machine = Machine()
    base = Steady(machine, "base", step_s=0.1, work_per_step=10.0)
    same = Steady(machine, "same", step_s=0.1, work_per_step=10.0)
    run(turns(machine, [same], after(2), base, step_s=0.01))
    assert base.asked_steps == [3, 3, 3]
    assert same.asked_steps == [3, 3]


def test_slices_of_steps_that_became_much_shorter_grow_step_by_step():
    machine = Machine()
    quick = Steady(machine, "quick", step_s=0.001)
    run(turns(machine, [quick], after(5)))
    assert quick.asked_steps == [3, 12, 48, 192, 300]


def test_slices_of_steps_that_became_longer_shrink_at_once():
    machine = Machine()
    slow = Steady(machine, "slow", step_s=2.0)
    run(turns(machine, [slow], after(2)))
    assert slow.asked_steps == [3, 1]


def test_a_slice_may_take_much_longer_than_slices_took_before_it_counts_as_hanging():
    machine = Machine()
    legs = [Steady(machine, "slow", step_s=2.0)]
    made = turns(machine, legs, after(3), step_s=0.01)
    run(made)
    assert legs[0].limits == [10.0, 80.0, 80.0]


def contest(*ratios):
    return Contest(None, [Pair(one * 10.0, 10.0, 10.0, 3) for one in ratios])


def spread(middle, by, count):
    """`count` ratios around `middle`, so far apart that no interval is narrow."""
    return [middle * math.exp(by * (-1) ** number) for number in range(count)]


def test_a_wide_gap_is_decided_by_three_pairs_and_a_small_one_by_more():
    assert not enough(contest(2.0, 2.0), 0.02)
    assert enough(contest(2.0, 2.02, 1.98), 0.02)
    assert not enough(contest(*[1.2] * (MIN_PAIRS - 1)), 0.02)
    assert enough(contest(*[1.2] * MIN_PAIRS), 0.02)


def test_a_large_gain_may_be_known_less_exactly_than_a_small_one():
    assert not enough(contest(*spread(1.3, 0.04, MIN_PAIRS)), 0.02)
    assert enough(contest(*spread(4.0, 0.04, MIN_PAIRS)), 0.02)


def test_what_is_clearly_no_gain_is_decided_early_however_wide():
    assert enough(contest(*spread(0.6, 0.1, MIN_PAIRS)), 0.02)


def test_three_pairs_reject_only_what_is_far_below_one():
    assert not enough(contest(0.78, 0.8, 0.82), 0.02)
    assert enough(contest(0.5, 0.51, 0.52), 0.02)
    assert enough(contest(*spread(0.8, 0.02, MIN_PAIRS)), 0.02)


def test_a_gain_that_is_clear_but_not_narrow_goes_on():
    found = contest(*spread(2.0, 0.1, MIN_PAIRS))
    assert found.ratio.low > 1.1
    assert not enough(found, 0.02)


def test_who_is_surely_far_above_or_not_far_above_one_can_wait():
    assert can_wait(contest(*spread(2.0, 0.1, MIN_PAIRS)), 0.02)
    assert not can_wait(contest(*spread(2.0, 0.1, MIN_PAIRS)), 0.9)
    assert not can_wait(contest(*spread(1.3, 0.1, MIN_PAIRS)), 0.02)
    assert not can_wait(contest(*spread(1.0, 0.05, MIN_PAIRS)), 0.02)
    assert can_wait(contest(*spread(1.0, 0.05, 2 * MIN_PAIRS)), 0.02)
    assert can_wait(contest(*spread(1.0, 0.5, MAX_PAIRS)), 0.02)


def test_what_lies_on_the_floor_goes_on_even_if_it_is_narrow():
    assert not enough(contest(*spread(1.02, 0.005, MIN_PAIRS)), 0.02)
    assert enough(contest(*spread(1.10, 0.005, MIN_PAIRS)), 0.02)


def test_a_higher_floor_takes_more_to_clear():
    narrow = contest(*spread(1.10, 0.005, MIN_PAIRS))
    assert enough(narrow, 0.02)
    assert not enough(narrow, 0.09)


def test_nothing_takes_more_than_the_most_pairs():
    assert not enough(contest(*spread(1.0, 0.3, MAX_PAIRS - 1)), 0.02)
    assert not enough(contest(*spread(1.0, 0.3, MAX_PAIRS)), 0.02)
    assert enough(contest(*spread(1.0, 0.3, MOST_PAIRS)), 0.02)
    assert enough(contest(*spread(1.0, 0.03, MAX_PAIRS)), 0.02)


def racing(*ratios, race="workers"):
    return replace(contest(*ratios), race=race)


def test_a_value_that_lies_clearly_behind_another_is_beaten_at_once():
    ahead, behind = racing(2.0, 2.02, 1.98), racing(1.5, 1.52, 1.48)
    assert beaten(behind, [ahead, behind])
    assert not beaten(ahead, [ahead, behind])


def test_of_values_that_are_as_good_as_each_other_one_goes_on():
    one = racing(*spread(2.0, 0.003, MIN_PAIRS))
    other = racing(*spread(2.01, 0.003, MIN_PAIRS))
    assert [beaten(each, [one, other]) for each in (one, other)] == [True, False]
    few = [racing(*spread(2.0, 0.003, MIN_PAIRS - 1)) for _ in range(2)]
    assert not beaten(few[0], few)


def test_different_fixes_do_not_race_and_one_that_failed_beats_nobody():
    ahead, behind = contest(2.0, 2.02, 1.98), contest(1.5, 1.52, 1.48)
    assert not beaten(behind, [ahead, behind])
    assert not beaten(racing(1.5, 1.52, 1.48), [racing(2.0, 2.02, 1.98, race="buffers")])
    assert not beaten(racing(1.5, 1.52, 1.48), [replace(racing(2.0, 2.02, 1.98), failure="hangs")])
    assert not beaten(racing(1.5), [racing(2.0, 2.02, 1.98)])


def test_slow_steps_of_a_leg_that_need_not_settle_all_count():
    leg = Steady(Machine(), "a", step_s=2.0)
    leg.settles = False
    take(leg, 2.0, 0.0, lambda: False)
    assert (leg.asked_steps, leg.settled) == ([1], [0])


def test_too_few_pairs_have_no_ratio():
    assert contest(1.0, 1.0).ratio is None
    assert isinstance(contest(1.0, 1.1, 1.2).ratio, Ratio)


@pytest.mark.parametrize(("step_s", "steps"), [(2.0, 1), (0.1, 1), (0.02, 3), (0.001, 50)])
def test_what_is_cold_after_a_pause_counts_for_nobody(step_s, steps):
    assert settle_steps(step_s) == steps


@pytest.mark.parametrize(("step_s", "steps"), [(2.0, 0), (0.3, 0), (0.2, 1), (0.02, 3)])
def test_a_step_as_long_as_a_slice_counts_at_once_where_none_is_hidden_before_it(step_s, steps):
    assert settle_steps(step_s, settles=False) == steps


def test_with_an_epoch_each_slice_holds_whole_ones_and_the_pause_is_added():
    machine = Machine()
    epoch = Epoch(steps=5, seconds=0.6, pause_s=0.1)

    class Epochs(Steady):
        def run_slice(self, steps, *rest):
            piece = super().run_slice(steps, *rest)
            return piece and replace(piece, epochs=steps // 5)

    base, leg = Epochs(machine, "base"), Epochs(machine, "fix", step_s=0.05)
    made = Turns(base, [Contest(leg)], 0.1, lambda: False, after(6), epoch)
    run(made)
    assert all(steps % 5 == 0 for steps in base.asked_steps + leg.asked_steps)
    assert base.asked_steps[0] == 5
    # 0.6 s with the pause against 0.35 s
    assert made.contests[0].ratio.speedup == pytest.approx(0.6 / 0.35)


def test_a_slice_that_begins_where_an_epoch_does_is_taken_again_a_step_later():
    machine = Machine()
    asked = []

    class Aligned(Steady):
        def run_slice(self, steps, settle, *rest):
            asked.append(settle)
            piece = super().run_slice(steps, settle, *rest)
            return piece and replace(piece, epochs=2 if len(asked) == 1 else 1)

    piece, _ = take(Aligned(machine, "leg"), 0.1, 0.0, lambda: False, Epoch(steps=5, seconds=0.6))
    assert (piece.epochs, asked) == (1, [1, 2])


def test_a_leg_with_several_steps_a_call_makes_whole_epochs_in_fewer_calls():
    machine, epoch = Machine(), Epoch(steps=36, seconds=3.6)

    class Calls(Steady):
        """Epochs of 36 steps in calls of 16: two whole ones and a third."""

        def run_slice(self, steps, settle, limit_s, asked):
            piece = super().run_slice(steps, settle, limit_s, asked)
            return piece and replace(piece, epochs=steps // 3)

    leg = Calls(machine, "leg", step_s=0.2, work_per_step=16.0)
    piece, step_s = take(leg, 0.2, 0.0, lambda: False, epoch)
    assert leg.asked_steps == [3]
    assert (piece.steps, piece.work, piece.epochs) == (3, 36.0, 1)
    assert step_s == pytest.approx(0.2)


def test_a_leg_whose_epochs_have_another_length_fails_with_that_reason():
    machine = Machine()
    made = Turns(
        Steady(machine, "base"), [Contest(Steady(machine, "fix"))], 0.1, lambda: False, after(6),
        Epoch(steps=5, seconds=0.6),
    )  # fmt: skip
    with pytest.raises(LegFailed, match="do not all have 5 steps"):
        run(made)


@pytest.mark.parametrize(
    ("low", "high", "pairs", "told"),
    [
        (0.99, 1.01, MIN_PAIRS, True),  # neither
        (0.99, 1.01, MIN_PAIRS - 1, False),
        (0.97, 1.01, MAX_PAIRS, False),  # it may be slower: that is looked at as well
        (1.03, 1.06, MIN_PAIRS, False),  # clear of the difference, not by much
        (1.03, 1.06, MAX_PAIRS, True),
        (1.10, 1.40, MAX_PAIRS, False),  # faster, by what?
        (0.90, 0.93, MIN_PAIRS, True),
    ],
)
def test_a_difference_is_told_either_way_or_told_to_be_none(low, high, pairs, told):
    found = Ratio(math.sqrt(low * high), low, high, pairs, 100)
    assert is_told(found, 0.02, 0.01) is told
