"""Which fixes are faster and make another experiment of the script."""

import pytest

from trainperf.model import Control, Equivalence, Ratio, Run
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured
from trainperf.trial.parity import Band, Losses
from trainperf.trial.rounds import sort_out

RUN = Run(("python", "train.py"), "/project", "train.py")
LOSSES, OTHER, BROKEN = (
    Losses("loss", {1: 2.0, 2: second}, "fit") for second in (1.5, 1.9, float("nan"))
)
CONTROL = Control(1.0, 0.9, 1.1, 12, 96, floor=0.1)


@pytest.mark.parametrize(
    ("low", "losses", "apart", "baseline", "told"),
    [
        (1.4, LOSSES, False, LOSSES, []),  # kept
        (1.4, LOSSES, True, LOSSES, ["a"]),  # by design
        (1.05, LOSSES, True, LOSSES, []),
        (1.4, OTHER, False, LOSSES, ["a"]),  # it was to train the same
        (1.05, OTHER, False, LOSSES, []),
        (1.4, BROKEN, False, LOSSES, []),  # it trains nothing
        (1.4, BROKEN, True, BROKEN, ["a"]),  # no more does the script
    ],
)
def test_what_trains_otherwise_and_is_surely_faster_is_one(low, losses, apart, baseline, told):
    candidate = Candidate(("a",), RUN, Equivalence.EXACT, 2.0, 0, apart=apart)
    measured = Measured(candidate, Ratio(1.5, low, 1.6, 12, 96), losses)
    usual = Baseline(0.1, 0.0, baseline, Band(True, 0.0), CONTROL, None)
    found = sort_out([measured], lambda _: usual, "late")
    assert [trial.fix for trial in found.apart] == told
