"""Findings whose repair was tried on top of a repaired input."""

from dataclasses import replace

import pytest

import zoo
from trainperf.diagnose.judging import of_second_round
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, with_free_input
from trainperf.model import Outcome, Trial
from trainperf.trial import Freed

BETWEEN = "keras_epoch_end"


def test_what_was_tried_on_top_has_the_bound_of_a_step_whose_input_is_free() -> None:
    evidence = zoo.load("slow_images").evidence
    free = with_free_input(evidence)
    assert free is not None
    first, again = (
        next(one for one in findings_to_try(seen, (), among=[by_id()[BETWEEN]]))
        for seen in (evidence, free)
    )
    assert first.bound == pytest.approx(1.07, abs=0.01)
    assert again.bound == pytest.approx(1.28, abs=0.01)  # its steps are shorter
    kept = Trial(BETWEEN, Outcome.KEPT, "", 1.11, kept=True)
    later = replace(kept, on_top=("tf_cache",))
    freed = Freed(free, (again,))
    assert of_second_round(first, (later,), freed).bound == again.bound
    assert of_second_round(first, (kept,), freed) == first
    assert of_second_round(first, (later,), None) == first
