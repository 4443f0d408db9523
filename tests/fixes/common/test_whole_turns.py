"""How a fix that saves outside the training steps is tried: in whole turns of a long training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import SITE, evidence
from trainperf.fixes.tf_step.calls.keras_predict_in_loop import FEWEST_TURNS, outside_steps
from trainperf.model import Length, Loop, Missing, Outside

FIT = Outside("fit", 13.0, 32, 0.6, loop=SITE)
MANY = Length(32 * FEWEST_TURNS, "so many", epochs=FEWEST_TURNS, fits=FEWEST_TURNS)


def test_what_is_part_of_the_steps_needs_nothing_more() -> None:
    for turn in ("step", "evaluation"):
        assert outside_steps(evidence(outside_=replace(FIT, turn=turn), length_=MANY)) == {}


def test_a_turn_of_a_long_training_is_a_slice_as_it_is_written() -> None:
    found = outside_steps(evidence(outside_=FIT, length_=MANY))
    turn = {"steps": 32, "seconds": 13.0, "pause_s": 0.0, "written": True}
    assert found == {"epoch": turn}


@pytest.mark.parametrize(
    "length",
    [
        Missing("nobody knows"),
        replace(MANY, fits=FEWEST_TURNS - 1),
        replace(MANY, fits=1),
    ],
)
def test_a_training_of_few_turns_is_over_before_they_could_be_compared(length: object) -> None:
    assert outside_steps(evidence(outside_=FIT, length_=length)) == {"outside": True}


def test_calls_that_hold_several_steps_do_not_stop_where_a_turn_does() -> None:
    loop = Loop("fit", where=SITE, steps_per_execution=8)
    assert outside_steps(evidence(outside_=FIT, length_=MANY, loop=loop)) == {"outside": True}
