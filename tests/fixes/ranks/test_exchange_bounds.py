"""Savings of an exchange of gradients: never more than was measured of it."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.errors import NotMeasured
from trainperf.fixes.ranks._exchange import (
    exchange_at_most,
    exchange_seconds,
    hidden_seconds,
    sent_seconds,
    step_without_exchange,
)
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Evidence


def job(*fields: str) -> Evidence:
    """A job whose exchange takes 34 of 68 ms, all-reduces alone 37 and the backward 25 ms."""
    return evidence_of("ddp_large_gradients | " + "; ".join(fields))


UNTIMED = "parallel.exchange.all_reduce = missing"
ALONE = "parallel.exchange.all_reduce.seconds = 0.05"


def test_copies_take_no_longer_than_the_all_reduces_alone() -> None:
    short = "parallel.exchange.all_reduce.seconds = 0.02"

    assert sent_seconds(job(short)) == pytest.approx(0.02)
    assert sent_seconds(job(UNTIMED)) == exchange_seconds(job())


def test_what_the_backward_cannot_hide_stays() -> None:
    found = job(ALONE, "torch.split[backward].seconds = 0.06")
    own = part_seconds(found, "backward") - exchange_seconds(found)  # without its wait

    assert 0 < own < 0.05
    assert hidden_seconds(found) == pytest.approx(exchange_seconds(found) - (0.05 - own))
    assert hidden_seconds(job(UNTIMED)) == exchange_seconds(job())


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
