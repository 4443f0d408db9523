"""What a million samples and an epoch cost, and what the kept changes make of it."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.model import Cost, Stack
from trainperf.report.assemble.diagnosis import cost, cost_after

CASE = 'slow_images | machine.price = {"per_hour": 3.6, "source": "--price-per-hour"}'
"""A tenth of a cent a second; 640 samples and an epoch take 0.768 s."""


def before(laid: str = "") -> Cost:
    found = cost(evidence_of(f"{CASE}; {laid}" if laid else CASE))
    assert found is not None
    return found


def after(**fields: Any) -> Cost:
    given = {
        "fixes": ("tf_interleave_parallel",),
        "speedup": 2.0,
        "low": 1.9,
        "high": 2.1,
        "pairs": 9,
    }
    rest = {"steps": 90, "before_step_s": 0.1, "after_step_s": 0.05}
    found = cost_after(before(), Stack(**{**given, **rest, **fields}))
    assert found is not None
    return found


@pytest.mark.parametrize("steps", ["null", "0"])
def test_an_epoch_of_unknown_length_has_no_cost(steps: str) -> None:
    found = before(f"loop.epoch_steps = {steps}")
    assert found.epoch_before is None
    assert found.million_samples_before is not None


def test_a_batch_of_unknown_size_has_no_cost_by_samples() -> None:
    found = before("loop.batch_size = null")
    assert found.million_samples_before is None
    assert found.epoch_before == pytest.approx(0.000768, abs=1e-6)


def test_kept_fixes_make_it_cheaper_by_what_was_measured() -> None:
    found = after(before_epoch_s=120.0, after_epoch_s=90.0)
    assert found.million_samples_after == pytest.approx(0.75 * 1.2, abs=0.001)
    assert found.epoch_after == pytest.approx(0.75 * 0.000768, abs=1e-6)  # not by the step's


def test_fixes_that_make_it_slower_make_it_dearer() -> None:
    assert after(speedup=0.5).million_samples_after == pytest.approx(2 * 1.2, abs=0.001)
