"""What is put together and when, and why trials could not be made; the whole end to end."""

from types import SimpleNamespace

import pytest

from trainperf.model import Equivalence, Outcome, Trials
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.experiment import _failed
from trainperf.trial.legs.faults import LegFailed, OutOfTime

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
