from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.cases.common.cases import evidence, machine
from fixes.cases.ranks._parallel_cases import job
from trainperf.model import BetweenEpochs, Cost, Evidence, Instance, Loop, Price, Stack
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


def test_without_a_price_there_is_no_cost() -> None:
    assert cost(case(price=None)) is None


def test_without_a_measured_step_there_is_no_cost() -> None:
    assert cost(replace(case(), times=evidence(real=None).times)) is None


def test_a_million_samples_cost_their_steps() -> None:
    # 10,000 steps of 0.1 s at 0.001 dollars a second
    assert known(cost(case())).million_samples_before == pytest.approx(1.0)


def test_an_epoch_costs_its_steps_and_what_passes_until_the_next() -> None:
    assert known(cost(case())).epoch_before == pytest.approx(0.1)
    between = BetweenEpochs(20.0, 2)
    assert known(cost(case(between_epochs=between))).epoch_before == pytest.approx(0.12)


def test_a_million_samples_cost_as_much_as_the_epochs_they_are() -> None:
    found = known(cost(case(between_epochs=BetweenEpochs(20.0, 2))))
    assert found.epoch_before is not None
    assert found.million_samples_before == pytest.approx(10 * found.epoch_before)


@pytest.mark.parametrize("steps", [None, 0])
def test_an_epoch_of_unknown_length_has_no_cost(steps: int | None) -> None:
    found = known(cost(case(Loop("fit", batch_size=100, epoch_steps=steps))))
    assert found.epoch_before is None
    assert found.million_samples_before is not None


def test_a_batch_of_unknown_size_has_no_cost_by_samples() -> None:
    found = known(cost(case(Loop("fit", epoch_steps=1000))))
    assert found.million_samples_before is None
    assert found.epoch_before is not None


def test_every_host_of_a_training_job_is_paid_for() -> None:
    found = known(cost(case(instance=Instance("sagemaker", "ml.g5.xlarge", hosts=3))))
    assert found.hosts == 3
    assert found.epoch_before == pytest.approx(0.3)


def test_hosts_that_ranks_run_on_are_paid_for() -> None:
    found = known(cost(case(instance=Instance("ec2", "g5.xlarge"), parallel_=job(hosts=2))))
    assert found.hosts == 2
    assert found.million_samples_before == pytest.approx(2.0)


def test_kept_fixes_make_it_cheaper_by_what_was_measured() -> None:
    found = known(cost_after(cost(case()), stack(before_epoch_s=120.0, after_epoch_s=90.0)))
    assert found.million_samples_after == pytest.approx(0.75)
    assert found.epoch_after == pytest.approx(0.075)  # by the epoch's own times, not the step's


def test_an_epoch_that_was_not_measured_with_the_fixes_has_no_cost_after() -> None:
    found = known(cost_after(cost(case()), stack()))
    assert found.epoch_after is None
    assert found.million_samples_after is not None


def test_fixes_that_make_it_slower_make_it_dearer() -> None:
    found = known(cost_after(cost(case()), stack(speedup=0.5)))
    assert found.million_samples_after == pytest.approx(2.0)


@pytest.mark.parametrize("tried", [None, stack(fixes=())])
def test_without_kept_fixes_there_is_no_cost_after(tried: Stack | None) -> None:
    before = cost(case())
    assert cost_after(before, tried) == before
    assert cost_after(None, tried) is None
