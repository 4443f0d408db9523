"""Whether the gain of ending retracing lasts as long as a training."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.tf_step.tf_retracing import StopRetracing


@pytest.mark.parametrize(
    ("fields", "lasts"),
    [("", True), ("retracing.count = 20", False), ("retracing.numbers = []", False)],
)
def test_it_lasts_where_a_number_made_each_step_a_new_one(fields: str, lasts: bool) -> None:
    found = StopRetracing().detect(evidence_of(f"retracing | {fields}"))
    assert found is not None
    assert StopRetracing().lasts(found) is lasts
