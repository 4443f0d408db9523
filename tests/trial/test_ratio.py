import math
import random

import pytest

from trainperf.trial.ratio import Pair, ratio, student_t

TRUE = 1.2


def pairs(*ratios):
    return [Pair(one * 100.0, 100.0, 100.0, 5) for one in ratios]


def session(chance, count, burst=0.1, noise=0.03, drift=0.01, contests=1):
    """Pairs as turns give them: neighbours share a slice, the machine drifts, some
    slices are spoiled by a burst of a neighbour's work."""
    made, slices = [], 0

    def rate(base):
        nonlocal slices
        slices += 1
        spoiled = chance.uniform(0.4, 0.9) if chance.random() < burst else 1.0
        return base * spoiled * math.exp(chance.gauss(0, noise) - drift * slices)

    before = rate(100.0)
    for _ in range(count):
        for contest in range(contests):
            changed, after = rate(100.0 * TRUE), rate(100.0)
            if contest == 0:
                made.append(Pair(changed, before, after, 5))
            before = after
    return made


def coverage(count, trials=250, **how):
    chance = random.Random(1)
    found = [ratio(session(chance, count, **how)) for _ in range(trials)]
    return sum(one.low <= TRUE <= one.high for one in found) / trials


@pytest.mark.parametrize(
    ("count", "how"),
    [
        (6, {"burst": 0.0}),
        (6, {"burst": 0.15}),
        (8, {"burst": 0.15}),
        (12, {"burst": 0.3}),
        (24, {"burst": 0.15, "contests": 4}),
    ],
)
def test_the_interval_covers_the_truth_at_its_stated_rate_through_bursts(count, how):
    # Of 2000 sessions each, 92 to 95 % were covered; 250 tell that to 2 %.
    assert 0.90 <= coverage(count, **how) <= 0.99


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("burst", [0.0, 0.15])
def test_the_interval_of_a_few_pairs_is_no_narrower_than_it_says(count, burst):
    assert 0.90 <= coverage(count, trials=1000, burst=burst) <= 0.995


def test_a_steady_drift_of_the_machine_cancels():
    rates = [100.0 - 2.0 * slot for slot in range(25)]
    drifting = [
        Pair(TRUE * rates[slot], rates[slot - 1], rates[slot + 1], 5) for slot in range(1, 25, 2)
    ]
    found = ratio(drifting)
    assert found.speedup == pytest.approx(TRUE, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((TRUE, TRUE), rel=1e-9)


@pytest.mark.parametrize(
    ("freedom", "known"),
    [(2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (7, 2.365), (11, 2.201), (23, 2.069)],
)
def test_the_quantiles_of_students_t_are_those_of_the_tables(freedom, known):
    assert student_t(0.975, freedom) == pytest.approx(known, rel=0.01)
    assert student_t(0.025, freedom) == pytest.approx(-known, rel=0.01)
