import math
from dataclasses import replace

import pytest

from kit.simulated import Machine, SimulatedLeg, candidate
from trainperf.model import Ratio
from trainperf.recording.run import Epoch
from trainperf.trial.budget import MIN_PAIRS
from trainperf.trial.contest import (
    MAX_PAIRS,
    MOST_PAIRS,
    Contest,
    enough,
    is_settled,
    take,
)
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.ratio import Pair


def never():
    return False


def taken(leg, step_s, count, epoch=None):
    """So many slices of a leg, one after another."""
    pieces = []
    for _ in range(count):
        piece, step_s = take(leg, step_s, 0.0, never, epoch)
        pieces.append(piece)
    return pieces


@pytest.mark.parametrize(
    ("step_s", "steps"),
    [
        (0.001, [3, 12, 48, 192, 300]),  # much shorter than before: slices grow step by step
        (2.0, [3, 1, 1, 1, 1]),  # longer: they shrink at once
    ],
)
def test_slices_follow_the_length_of_a_step(step_s, steps):
    leg = SimulatedLeg(Machine(), step_s=step_s)
    taken(leg, 0.1, 5)
    assert leg.asked_steps == steps


def test_a_slice_may_take_much_longer_than_slices_took_before_it_counts_as_hanging():
    leg = SimulatedLeg(Machine(), step_s=2.0)
    taken(leg, 0.01, 3)
    assert leg.limits == [10.0, 80.0, 80.0]


def contest(*ratios, race=""):
    raced = candidate(race, variant="a value") if race else None
    leg = SimulatedLeg(Machine())
    return Contest(leg, raced, [Pair(one * 10.0, 10.0, 10.0, 3) for one in ratios])


def spread(middle, by, count):
    """`count` ratios around `middle`, so far apart that no interval is narrow."""
    return [middle * math.exp(by * (-1) ** number) for number in range(count)]


@pytest.mark.parametrize(
    ("speedup", "by", "pairs", "over"),
    [
        (1.0, 0.005, 4, True),  # clearly nothing
        (0.6, 0.02, 3, True),
        (1.03, 0.005, 4, False),  # it may be worth an edit
        (2.0, 0.01, 2, False),
        (2.0, 0.01, 3, True),  # a wide gap
        (1.2, 0.0, MIN_PAIRS - 1, False),  # a small one takes more
        (1.2, 0.0, MIN_PAIRS, True),
        (1.3, 0.1, MIN_PAIRS, False),
        (4.0, 0.1, MIN_PAIRS, True),  # a large gain may be known less exactly
        (2.0, 0.12, MIN_PAIRS, False),  # clear, but not narrow
        (1.0, 0.3, MAX_PAIRS, False),
        (1.0, 0.03, MAX_PAIRS, True),
        (1.0, 0.3, MOST_PAIRS, True),  # nothing takes more
    ],
)
def test_a_contest_is_over_where_its_pairs_tell_enough(speedup, by, pairs, over):
    assert enough(contest(*spread(speedup, by, pairs)), 0.02) is over


class Epochs(SimulatedLeg):
    """A leg of which each slice opens its input so often, as `opened` says of steps and slice."""

    def __init__(self, opened, **how):
        super().__init__(Machine(), **how)
        self.opened = opened

    def run_slice(self, steps, *rest):
        piece = super().run_slice(steps, *rest)
        return piece and replace(piece, epochs=self.opened(steps, len(self.asked_steps)))


def test_a_leg_with_several_steps_a_call_makes_whole_epochs_in_fewer_calls():
    """Epochs of 36 steps in calls of 16: two whole ones and a third."""
    leg = Epochs(lambda steps, _: steps // 3, step_s=0.2, work=16.0)
    piece, step_s = take(leg, 0.2, 0.0, never, Epoch(steps=36, seconds=3.6))
    assert leg.asked_steps == [3]
    assert (piece.steps, piece.work, piece.epochs) == (3, 36.0, 1)
    assert step_s == pytest.approx(0.2)


def test_of_epochs_of_one_turn_each_is_one_wherever_its_opening_was_counted():
    leg = Epochs(lambda steps, _: 1, step_s=0.2, work=16.0)
    epoch = Epoch(steps=16, seconds=0.2, pause_s=0.1)
    (piece,) = taken(leg, 0.1, 1, epoch)
    assert (piece.epochs, piece.steps, piece.seconds) == (3, 3, pytest.approx(3 * 0.3))


def test_a_change_that_makes_an_epoch_one_step_long_cannot_be_compared():
    leg = Epochs(lambda steps, _: 0, step_s=0.2, work=16.0)
    with pytest.raises(LegFailed, match="makes an epoch one step long"):
        taken(leg, 0.1, 1, Epoch(steps=16, seconds=0.2))


def test_a_leg_whose_epochs_have_another_length_fails_with_that_reason():
    with pytest.raises(LegFailed, match="do not all have 5 steps, so none could be compared"):
        taken(SimulatedLeg(Machine()), 0.1, 1, Epoch(steps=5, seconds=0.6))


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
    assert is_settled(found, 0.02, 0.01) is told
