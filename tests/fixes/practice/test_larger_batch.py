"""The bound of a larger batch."""

from __future__ import annotations

import pytest

from trainperf.fixes.common.cases import evidence, probe
from trainperf.fixes.practice.batch_size import BATCH, SMALL, LargerBatch


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
