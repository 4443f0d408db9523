"""What is put together and when, and why trials could not be made; the whole end to end."""

from types import SimpleNamespace

import pytest

from trainperf.model import Equivalence, Outcome, Ratio, Trials
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.experiment import _failed, _once
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.outcome import Baseline, Start
from trainperf.trial.stack import Stacked

WAY = Candidate(("a",), None, Equivalence.EXACT, 2.0, 0, "workers=2")
NO_STEP = LegFailed("made no step")
PLANNED = SimpleNamespace(chosen=(WAY,), how=Trials("side by side"))


@pytest.mark.parametrize(
    ("failure", "deadline", "interrupted", "reason"),
    [
        (NO_STEP, 100.0, True, "interrupted before anything could be compared"),
        (
            NO_STEP,
            1.0,
            False,
            "the budget was over before anything could be compared",
        ),
        (OutOfTime(), 100.0, False, "the budget was over before anything could be compared"),
        (
            NO_STEP,
            100.0,
            False,
            "the script as it is could not be run as a leg: made no step",
        ),
    ],
)
def test_where_nothing_could_be_compared_the_reason_is_named(
    failure, deadline, interrupted, reason
):
    clock = Clock(deadline, lambda: interrupted, lambda: 0.0)
    tried = _failed(PLANNED, failure, clock)
    assert (tried.trying.mode, tried.trying.reason) == ("none", reason)
    (one,) = tried.trials
    assert (one.fix, one.outcome, one.reason, one.bound) == ("a", Outcome.NOT_TRIED, reason, 2.0)
    assert (one.variant, one.name) == ("workers=2", "a (workers=2)")


@pytest.mark.parametrize(
    ("own", "beside", "told"),
    [(14.0, True, 4.0), (14.0, False, 4.0), (7.0, True, 0.0), (7.0, False, -3.0)],
)
def test_starting_sooner_counts_where_legs_did_not_start_beside_each_other(own, beside, told):
    usual = Baseline(0.1, 0.0, None, None, None, Start(10.0, None))
    stacked = Stacked(("a",), Ratio(2.0, 1.9, 2.1, 12, 60), start=Start(own, None))
    assert _once(stacked, usual, beside) == told
