"""Whether the gain of ending retracing lasts as long as a training."""

from __future__ import annotations

import pytest

from fixes.cases.common.cases import SITE, evidence
from fixes.cases.tf_step.tf_retracing import WEIGHT
from trainperf.fixes.tf_step.tf_retracing import StopRetracing
from trainperf.model import ChangingNumber, Finding, Retracing


@pytest.mark.parametrize(
    ("count", "numbers", "lasts"),
    [(60, (WEIGHT,), True), (20, (WEIGHT,), False), (60, (), False)],
)
def test_it_lasts_where_a_number_made_each_step_a_new_one(
    count: int, numbers: tuple[ChangingNumber, ...], lasts: bool
) -> None:
    seen = Retracing("train_step", count, 60, 4.0, "the Python number", SITE, numbers=numbers)
    found = StopRetracing().detect(evidence(retracing=seen))
    assert isinstance(found, Finding)
    assert StopRetracing().lasts(found) is lasts
