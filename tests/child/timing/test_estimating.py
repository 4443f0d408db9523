"""A mean that a burst does not move, and an interval that holds the truth."""

import math
import random

import pytest

from trainperf.child.timing.estimating import FEWEST, estimate


def noisy(chance, count, slow=(), spread=0.02):
    """So many times around 1, those in `slow` three times as long."""
    return [chance.gauss(1, spread) * (3 if index in slow else 1) for index in range(count)]


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_fewer_than_five_blocks_tell_nothing_of_the_noise(count):
    found = estimate([1.0, 1.0, 1.0, 9.0][:count])
    assert found.half is None
    assert found.relative == math.inf
    assert found.value == 1.0


@pytest.mark.parametrize("count", [5, 6, 8, 12, 20])
def test_the_interval_holds_the_mean_of_what_is_spread_evenly(count):
    chance = random.Random(7)
    held = 0
    for _ in range(400):
        found = estimate(noisy(chance, count, spread=0.1))
        held += abs(found.value - 1) <= found.half
    assert 0.92 <= held / 400 <= 0.99
