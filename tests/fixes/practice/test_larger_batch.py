"""The bound of a larger batch."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, shown_findings

FIX = by_id()["batch_size"]


def test_what_stands_around_the_step_is_paid_less_often_as_well() -> None:
    """A step of 10 ms with 2 ms of callbacks: of four times the batch both take a quarter."""
    times = "times.real = 0.012; times.resident = 0.010"
    around = evidence_of(f"small_batch | {times}; probes.double_batch = 2")
    (found,) = shown_findings(around, among=[FIX])
    assert found.bound == pytest.approx(4.0, rel=0.05)
    assert found.at_best >= found.bound


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("small_batch", "that of SGD, or its whole schedule, with the batch."),
        ("reviews_of_all_lengths", "with the square root of the batch."),
        ("torch_loop_samplers | torch.optimizers = []", "with its square root for Adam."),
    ],
)
def test_a_usual_rule_for_the_learning_rate_is_named(case: str, words: str) -> None:
    found = FIX.look(evidence_of(case))
    assert found is not None
    assert found.advice.endswith(words)


def test_twice_and_four_times_the_batch_are_tried() -> None:
    (found,) = findings_to_try(evidence_of("healthy"), found=(), among=[FIX])
    assert [variant.name for variant in found.variants] == ["batch=256", "batch=512"]
