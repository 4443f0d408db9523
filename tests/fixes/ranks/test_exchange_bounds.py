"""Savings of an exchange of gradients: never more than was measured of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.cases.common.cases import measure
from fixes.cases.common.torch_cases import split
from fixes.cases.ranks._parallel_cases import ALL_REDUCE, SLOW, parallel_evidence, ranks
from trainperf.errors import NotMeasured
from trainperf.fixes.ranks._exchange import (
    bound_by_share,
    bound_if_hidden,
    bound_if_uncopied,
    exchange_at_most,
    exchange_seconds,
    step_without_exchange,
)
from trainperf.model import Evidence, Measure, Missing, Overlap


def case(**fields: object) -> Evidence:
    """An exchange of 40 ms in a step of 100 ms, changed by what is named."""
    return parallel_evidence(parallel={"exchange": replace(SLOW, **fields)}, resident=0.1)


def test_half_of_the_exchange_is_half_of_its_seconds() -> None:
    assert bound_by_share(case()) == pytest.approx(100 / 60)
    assert bound_by_share(case(), 0.5) == pytest.approx(100 / 80)


def test_copies_take_no_longer_than_the_all_reduces_alone() -> None:
    assert bound_if_uncopied(case(all_reduce=ALL_REDUCE)) == pytest.approx(100 / 80)
    assert bound_if_uncopied(case()) == pytest.approx(100 / 60)


def test_what_the_backward_cannot_hide_stays() -> None:
    long = replace(ALL_REDUCE, seconds=0.050)
    overlap = Overlap(compute_s=0.030, exchange_s=0.050, overlap_s=0.010, steps=5)

    assert bound_if_hidden(case(all_reduce=long, overlap=overlap)) == pytest.approx(100 / 80)
    assert bound_if_hidden(case(all_reduce=long)) == pytest.approx(100 / 60)


def test_the_split_tells_of_the_backward_where_ddp_did_not() -> None:
    long = replace(SLOW, all_reduce=replace(ALL_REDUCE, seconds=0.050))
    parts = split(forward=0.060, backward=0.030)
    evidence = parallel_evidence(parallel={"exchange": long}, split=parts, resident=0.1)

    assert bound_if_hidden(evidence) == pytest.approx(100 / 80)


@pytest.mark.parametrize(
    "seconds",
    [
        Missing("not switched off"),
        measure(0.0),
        Measure(0.01, 30, (), low=0.0, high=0.05),
    ],
)
def test_an_exchange_within_the_noise_has_no_price(seconds: Measure | Missing) -> None:
    with pytest.raises(NotMeasured):
        exchange_seconds(case(seconds_=seconds))


def test_at_most_it_takes_the_upper_end_of_what_the_noise_leaves_open() -> None:
    assert exchange_at_most(case()) == pytest.approx(0.040)
    unsure = Measure(0.01, 30, (), low=0.0, high=0.05)
    assert exchange_at_most(case(seconds_=unsure)) == pytest.approx(0.050)


def test_a_step_without_exchange_is_that_of_the_slowest_rank() -> None:
    own = (*ranks(1, local=measure(0.030)), *ranks(1, local=measure(0.050)))
    evidence = parallel_evidence(parallel={"processes": own, "exchange": SLOW})

    assert step_without_exchange(evidence) == pytest.approx(0.050)


def test_in_one_process_it_is_the_step_less_the_exchange() -> None:
    evidence = parallel_evidence("tensorflow", parallel={"exchange": SLOW})

    assert step_without_exchange(evidence) == pytest.approx(0.060)
