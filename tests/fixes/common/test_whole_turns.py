"""How a fix that saves outside the training steps is tried: in whole turns of a long training."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.tf_step.model_calls import FEWEST_TURNS, outside_steps

MANY = f"predict_between_fits | length.fits = {FEWEST_TURNS}"
OUTSIDE = {"outside": True}


def test_a_turn_of_a_long_training_is_a_slice_as_it_is_written() -> None:
    seen = evidence_of(MANY)
    steps, seconds = seen.outside.steps, seen.outside.seconds
    turn = {"steps": steps, "seconds": seconds, "pause_s": 0.0, "written": True}
    assert outside_steps(seen) == {"epoch": turn}


@pytest.mark.parametrize(
    ("case", "found"),
    [
        # what is part of the steps needs nothing more
        (f'{MANY}; outside.turn = "step"', {}),
        (f'{MANY}; outside.turn = "evaluation"', {}),
        # a training of few turns is over before they could be compared
        (f'{MANY}; length = missing "nobody knows"', OUTSIDE),
        (f"{MANY}; length.fits = {FEWEST_TURNS - 1}", OUTSIDE),
        (f"{MANY}; length.fits = 1", OUTSIDE),
        # calls that hold several steps do not stop where a turn does
        (f"{MANY}; loop.steps_per_execution = 8", OUTSIDE),
    ],
)
def test_what_is_no_turn_of_a_long_training_is_tried_otherwise(
    case: str, found: dict[str, object]
) -> None:
    assert outside_steps(evidence_of(case)) == found
