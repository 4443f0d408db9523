"""The bound of a larger batch."""

from __future__ import annotations

import pytest

from kit.evidence import OTHER_SITE, SITE, evidence, probe, stage
from kit.torch_evidence import torch_evidence
from trainperf.fixes.practice.batch_size import LargerBatch, adjusted
from trainperf.model import Evidence, Loop, ModelFacts, TorchOptimizer

BATCH = (stage("batch", where=OTHER_SITE, arguments={"batch_size": 8}),)
SMALL = Loop("fit", where=SITE, batch_size=8, epochs=10, epoch_steps=1000, input_kind="tf.data")


def test_what_stands_around_the_step_is_paid_less_often_as_well() -> None:
    """A step of 10 ms with 2 ms of callbacks: of four times the batch both take a quarter."""
    around = evidence(
        real=0.012,
        resident=0.010,
        input=0.001,
        loop=SMALL,
        stages_=BATCH,
        probes={"double_batch": probe(2.0)},
    )
    fix = LargerBatch()
    found, possible = fix.detect(around), fix.possible(around)
    assert found is not None
    assert possible is not None
    assert found.bound == pytest.approx(4.0, rel=0.05)
    assert possible.bound >= found.bound


def keras(optimizer: str, rate: float | None, scheduled: bool = False) -> Evidence:
    model = ModelFacts(
        "m",
        "Functional",
        optimizer=optimizer,
        learning_rate=rate,
        learning_rate_scheduled=scheduled,
    )
    return evidence(loop=SMALL, model=model)


def torch(optimizer: TorchOptimizer | None) -> Evidence:
    return torch_evidence(optimizer=optimizer)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            keras("SGD", 0.01),
            "with the batch: it was 0.01 in this run, which makes 0.02 for 16",
        ),
        (keras("Adam", 0.001), "square root of the batch: it was 0.001 in this run, which makes"),
        (keras("Adam", 0.001), "which makes 0.0014 for 16 and 0.002 for 32."),
        (keras("Adam", 0.001, scheduled=True), "of the batch, and with it the whole schedule."),
        (keras("AdamW", None), "that of AdamW with the square root of the batch."),
        (keras("", 0.1), "with the batch for SGD, and with its square root for Adam."),
        (torch(TorchOptimizer("SGD", learning_rate=0.1)), "it was 0.1 in this run"),
        (torch(TorchOptimizer("SGD", learning_rate=0.1, scheduled=True)), "the whole schedule"),
        (torch(TorchOptimizer("AdamW")), "that of AdamW with the square root of the batch."),
        (torch(None), "with the batch for SGD, and with its square root for Adam."),
    ],
)
def test_the_usual_learning_rate_is_named_where_it_is_known(case: Evidence, words: str) -> None:
    assert words in adjusted(case, 8, (2, 4))


def test_every_finding_says_how_to_adjust_the_learning_rate() -> None:
    found = LargerBatch().possible(torch_evidence())
    assert found is not None
    assert adjusted(torch_evidence(), 32, (2, 4)) in found.advice


def test_each_way_is_named_by_its_batch() -> None:
    found = LargerBatch().possible(torch_evidence())
    assert found is not None
    assert [one["batch"] for one in found.data["variants"]] == [64, 128]
