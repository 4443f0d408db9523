from __future__ import annotations

from typing import Any

import pytest

from kit.evidence import evidence, machine
from trainperf.model import Cost, Evidence, Loop, Price, Stack
from trainperf.report.assemble.diagnosis import cost, cost_after

PRICE = Price(3.6, "--price-per-hour")
"""A tenth of a cent a second."""

LOOP = Loop("fit", batch_size=100, epoch_steps=1000)


def case(loop: Loop = LOOP, price: Price | None = PRICE, **fields: Any) -> Evidence:
    box = machine(price=price, instance=fields.pop("instance", None))
    return evidence(real=0.1, loop=loop, machine=box, **fields)


def stack(**fields: Any) -> Stack:
    given = {
        "fixes": ("tf_interleave_parallel",),
        "speedup": 2.0,
        "low": 1.9,
        "high": 2.1,
        "pairs": 9,
    }
    rest = {"steps": 90, "interaction": None, "before_step_s": 0.1, "after_step_s": 0.05}
    return Stack(**{**given, **rest, **fields})


def known(found: Cost | None) -> Cost:
    assert found is not None
    return found


@pytest.mark.parametrize("steps", [None, 0])
def test_an_epoch_of_unknown_length_has_no_cost(steps: int | None) -> None:
    found = known(cost(case(Loop("fit", batch_size=100, epoch_steps=steps))))
    assert found.epoch_before is None
    assert found.million_samples_before is not None


def test_a_batch_of_unknown_size_has_no_cost_by_samples() -> None:
    found = known(cost(case(Loop("fit", epoch_steps=1000))))
    assert found.million_samples_before is None
    assert found.epoch_before is not None


def test_kept_fixes_make_it_cheaper_by_what_was_measured() -> None:
    found = known(cost_after(cost(case()), stack(before_epoch_s=120.0, after_epoch_s=90.0)))
    assert found.million_samples_after == pytest.approx(0.75)
    assert found.epoch_after == pytest.approx(0.075)  # by the epoch's own times, not the step's


def test_fixes_that_make_it_slower_make_it_dearer() -> None:
    found = known(cost_after(cost(case()), stack(speedup=0.5)))
    assert found.million_samples_after == pytest.approx(2.0)
