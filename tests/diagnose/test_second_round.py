"""Findings whose repair was tried on top of a repaired input."""

from dataclasses import replace

import pytest

import zoo
from trainperf.diagnose.judging import of_second_round
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, with_free_input
from trainperf.model import Outcome, Trial
from trainperf.trial import Freed

STEPS = "keras_steps_per_execution"


def test_what_was_tried_on_top_has_the_bound_of_a_step_whose_input_is_free() -> None:
    evidence = zoo.load("rows_one_by_one").evidence
    free = with_free_input(evidence)
    assert free is not None
    first, again = (
        next(one for one in findings_to_try(seen, (), among=[by_id()[STEPS]]))
        for seen in (evidence, free)
    )
    assert first.bound == pytest.approx(1.04, abs=0.005)  # what a step loses to its input stays
    assert again.bound != first.bound
    kept = Trial(STEPS, Outcome.KEPT, "", 3.7, kept=True)
    later = replace(kept, on_top=("tf_generator",))
    freed = Freed(free, (again,))
    assert of_second_round(first, (later,), freed).bound == again.bound
    assert of_second_round(first, (kept,), freed) == first
    assert of_second_round(first, (later,), None) == first
