"""How a fix that saves outside the training steps is tried: in whole turns of a long training."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.tf_step.model_calls import FEWEST_TURNS, outside_steps
from trainperf.model import Epoch

MANY = f"predict_between_fits | length.fits = {FEWEST_TURNS}"


def test_a_turn_of_a_long_training_is_a_slice_as_it_is_written() -> None:
    seen = evidence_of(MANY)
    steps, seconds = seen.outside.steps, seen.outside.seconds
    assert outside_steps(seen) == Epoch(steps, seconds, written=True)


@pytest.mark.parametrize(
    ("case", "found"),
    [
        # what is part of the steps needs nothing more
        (f'{MANY}; outside.turn = "step"', "steps"),
        (f'{MANY}; outside.turn = "evaluation"', "steps"),
        # a training of few turns is over before they could be compared
        (f'{MANY}; length = missing "nobody knows"', "none"),
        (f"{MANY}; length.fits = {FEWEST_TURNS - 1}", "none"),
        (f"{MANY}; length.fits = 1", "none"),
        # calls that hold several steps do not stop where a turn does
        (f"{MANY}; loop.steps_per_execution = 8", "none"),
    ],
)
def test_what_is_no_turn_of_a_long_training_is_tried_otherwise(case: str, found: str) -> None:
    assert outside_steps(evidence_of(case)) == found
