"""The work of a second in which changes of the experiment are told."""

from __future__ import annotations

import pytest

from reporters.samples import ONE_KEPT
from trainperf.model import Loop, Outcome, Trial
from trainperf.report.assemble import experiment_changes

(_, LARGER_BATCH) = ONE_KEPT.experiment_changes


@pytest.mark.parametrize(
    ("loop", "unit", "before"),
    [
        (Loop("iterator", batch_size=32, tokens=640.0, real_tokens=160.0), "real tokens", 320.0),
        (Loop("iterator", batch_size=32, tokens=640.0), "samples", 64.0),
        (Loop("update"), "steps", 2.0),
    ],
)
def test_it_is_told_in_real_tokens_samples_or_steps(loop: Loop, unit: str, before: float) -> None:
    finding = LARGER_BATCH.finding
    measured = {"speedup": 1.5, "low": 1.4, "high": 1.6, "pairs": 9, "steps": 90}
    trial = Trial(finding.id, Outcome.CHANGES, "", **measured)
    (one,) = experiment_changes(
        [(trial, LARGER_BATCH.patch)], {finding.id: finding}, [trial], 0.5, loop
    )
    assert (one.unit, one.before_per_s) == (unit, before)
    assert one.ways[0].after_per_s == pytest.approx(1.5 * before)
