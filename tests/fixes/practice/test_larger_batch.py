"""The bound of a larger batch."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.fixes.practice.batch_size import adjusted

FIX = by_id()["batch_size"]


def test_what_stands_around_the_step_is_paid_less_often_as_well() -> None:
    """A step of 10 ms with 2 ms of callbacks: of four times the batch both take a quarter."""
    times = "times.real = 0.012; times.resident = 0.010"
    around = evidence_of(f"small_batch | {times}; probes.double_batch = 2")
    (found,) = shown_findings(around, among=[FIX])
    assert found.bound == pytest.approx(4.0, rel=0.05)
    assert found.at_best >= found.bound


KERAS = "small_batch | models[0].optimizer = {}; models[0].learning_rate = {}"
SCHEDULED = "; models[0].learning_rate_scheduled = true"
TORCH = "torch_loop_samplers | torch.optimizers[0].cls = {}; torch.optimizers[0].learning_rate = {}"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            KERAS.format('"SGD"', 0.01),
            "with the batch: it was 0.01 in this run, which makes 0.02 for 16",
        ),
        (
            KERAS.format('"Adam"', 0.001),
            "square root of the batch: it was 0.001 in this run, which makes 0.0014 for 16",
        ),
        (
            KERAS.format('"Adam"', 0.001) + SCHEDULED,
            "of the batch, and with it the whole schedule.",
        ),
        (KERAS.format('"AdamW"', "null"), "that of AdamW with the square root of the batch."),
        (KERAS.format('""', 0.1), "with the batch for SGD, and with its square root for Adam."),
        (TORCH.format('"SGD"', 0.1), "it was 0.1 in this run"),
        (
            TORCH.format('"SGD"', 0.1) + "; torch.optimizers[0].scheduled = true",
            "the whole schedule",
        ),
        (TORCH.format('"AdamW"', "null"), "that of AdamW with the square root of the batch."),
        (
            "torch_loop_samplers | torch.optimizers = []",
            "with the batch for SGD, and with its square root for Adam.",
        ),
    ],
)
def test_the_usual_learning_rate_is_named_where_it_is_known(case: str, words: str) -> None:
    assert words in adjusted(evidence_of(case), 8, (2, 4))


def test_every_finding_names_its_batches_and_how_to_adjust_the_learning_rate() -> None:
    case = evidence_of("healthy")
    (found,) = findings_to_try(case, found=(), among=[FIX])
    assert adjusted(case, 128, (2, 4)) in found.advice
    assert [way["batch"] for way in found.data["variants"]] == [256, 512]
