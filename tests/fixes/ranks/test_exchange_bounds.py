"""Savings of an exchange of gradients: never more than was measured of it."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.ranks._exchange import (
    exchange_at_most,
    exchange_seconds,
    hidden_seconds,
)
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Evidence


def job(*fields: str) -> Evidence:
    """A job whose exchange takes 34 of 68 ms, all-reduces alone 37 and the backward 25 ms."""
    return evidence_of("ddp_large_gradients | " + "; ".join(fields))


UNTIMED = "parallel.exchange.all_reduce = missing"
ALONE = "parallel.exchange.all_reduce.seconds = 0.05"


def test_what_the_backward_cannot_hide_stays() -> None:
    found = job(ALONE, "torch.split[backward].seconds = 0.06")
    own = part_seconds(found, "backward") - exchange_seconds(found)  # without its wait

    assert 0 < own < 0.05
    assert hidden_seconds(found) == pytest.approx(exchange_seconds(found) - (0.05 - own))
    assert hidden_seconds(job(UNTIMED)) == exchange_seconds(job())


def test_at_most_it_takes_the_upper_end_of_what_the_noise_leaves_open() -> None:
    assert exchange_at_most(job()) == exchange_seconds(job())
    unsure = job("parallel.exchange.seconds = 0.01 ± 0.04")
    assert exchange_at_most(unsure) == pytest.approx(0.050)
