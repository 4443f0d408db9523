"""Which fixes are faster and make another experiment of the script."""

from trainperf.model import Control, Equivalence, Outcome, Ratio, Run, Trial
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured
from trainperf.trial.parity import Band, Losses
from trainperf.trial.rounds import other_experiments

RUN = Run(("python", "train.py"), "/project", "train.py")
LOSSES = Losses("loss", {1: 2.0, 2: 1.5}, "fit")
BROKEN = Losses("loss", {1: 2.0, 2: float("nan")}, "fit")
BASELINE = Baseline(
    0.1, 0.0, LOSSES, Band(True, 0.0), Control(1.0, 0.9, 1.1, 12, 96, floor=0.1), None
)


def named(outcome, low=1.4, losses=LOSSES, baseline=BASELINE):
    """The fix of a trial with that outcome, where it is one of another experiment."""
    trial = Trial("a", outcome, "losses part at step 2", 1.5, low, 1.6)
    candidate = Candidate(("a",), RUN, Equivalence.NUMERICS, 2.0, 0)
    measured = Measured(candidate, Ratio(1.5, low, 1.6, 12, 96), losses)
    return [one.fix for one in other_experiments([trial], [measured], lambda _: baseline)]


def test_what_is_kept_or_gains_nothing_or_failed_is_none():
    for outcome in set(Outcome) - {Outcome.CHANGES, Outcome.LOSSES_DIFFER}:
        assert named(outcome) == []


def test_what_changes_it_by_design_and_pays_is_one():
    assert named(Outcome.CHANGES) == ["a"]


def test_one_whose_losses_differ_is_one_if_it_is_surely_faster():
    assert named(Outcome.LOSSES_DIFFER) == ["a"]
    assert named(Outcome.LOSSES_DIFFER, low=1.05) == []
    assert named(Outcome.LOSSES_DIFFER, low=None) == []


def test_one_whose_losses_are_no_numbers_any_more_trains_nothing():
    assert named(Outcome.LOSSES_DIFFER, losses=BROKEN) == []
    same = Baseline(0.1, 0.0, BROKEN, Band(True, 0.0), BASELINE.control, None)
    assert named(Outcome.LOSSES_DIFFER, losses=BROKEN, baseline=same) == ["a"]
