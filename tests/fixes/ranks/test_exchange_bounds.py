"""Savings of an exchange of gradients: never more than was measured of it."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.errors import NotMeasured
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.ranks._exchange import (
    bound_if_hidden,
    bound_if_sent,
    bound_without,
    exchange_at_most,
    exchange_seconds,
    step_without_exchange,
)
from trainperf.model import Evidence


def job(*fields: str) -> Evidence:
    """A job whose exchange takes 34 of 68 ms, all-reduces alone 37 and the backward 25 ms."""
    return evidence_of("ddp_large_gradients | " + "; ".join(fields))


def without(share: float = 1.0, seconds: float = 0.0) -> object:
    """The speed-up of its step without so much of the exchange, or so many seconds less."""
    return pytest.approx(bound_if_saved(job(), share * exchange_seconds(job()) + seconds))


UNTIMED = "parallel.exchange.all_reduce = missing"
ALONE = "parallel.exchange.all_reduce.seconds = 0.05"


def test_half_of_the_exchange_is_half_of_its_seconds() -> None:
    assert bound_without(job()) == without()
    assert bound_if_sent(job(), 0.5) == without(0.5)


def test_copies_take_no_longer_than_the_all_reduces_alone() -> None:
    short = "parallel.exchange.all_reduce.seconds = 0.02"

    assert bound_if_sent(job(short)) == without(0, seconds=0.02)
    assert bound_if_sent(job(UNTIMED)) == without()


def test_what_the_backward_cannot_hide_stays() -> None:
    backward = "parallel.exchange.overlap.compute_s = 0.03"

    assert bound_if_hidden(job(ALONE, backward)) == without(seconds=0.03 - 0.05)
    assert bound_if_hidden(job(UNTIMED)) == without()


def test_the_split_tells_of_the_backward_where_ddp_did_not() -> None:
    parts = ("parallel.exchange.overlap = null", "torch.split[backward].seconds = 0.03")

    assert bound_if_hidden(job(ALONE, *parts)) == without(seconds=0.03 - 0.05)


@pytest.mark.parametrize("seconds", ["missing", "0.0", "0.01 ± 0.04"])
def test_an_exchange_within_the_noise_has_no_price(seconds: str) -> None:
    with pytest.raises(NotMeasured):
        exchange_seconds(job(f"parallel.exchange.seconds = {seconds}"))


def test_at_most_it_takes_the_upper_end_of_what_the_noise_leaves_open() -> None:
    assert exchange_at_most(job()) == exchange_seconds(job())
    unsure = job("parallel.exchange.seconds = 0.01 ± 0.04")
    assert exchange_at_most(unsure) == pytest.approx(0.050)


def test_a_step_without_exchange_is_that_of_the_slowest_rank() -> None:
    evidence = job("parallel.processes[0].local = 0.03", "parallel.processes[1].local = 0.05")

    assert step_without_exchange(evidence) == pytest.approx(0.050)


def test_in_one_process_it_is_the_step_less_the_exchange() -> None:
    evidence = evidence_of("mirrored_rnn | parallel.exchange.seconds = 0.01")

    assert step_without_exchange(evidence) == pytest.approx(evidence.times.real - 0.01)
