"""Limits of a probe: its requests, and its cost at most."""

import pytest

from trainperf.machine.storage.s3_probe import Budget, Limits, Spent, usd


def test_a_spent_budget_refuses_further_requests_bytes_and_time():
    now = [0.0]
    budget = Budget(Limits(requests=2, bytes=10, seconds=5), clock=lambda: now[0])
    budget.ask()
    budget.ask("ListObjectsV2")
    with pytest.raises(Spent):
        budget.ask()
    budget.got(9)
    with pytest.raises(Spent):
        budget.got(1)
    assert (budget.requests, budget.lists, budget.bytes) == (2, 1, 10)

    late = Budget(Limits(seconds=5), clock=lambda: now[0])
    now[0] = 5.0
    with pytest.raises(Spent):
        late.ask()


def test_the_cost_is_that_of_the_requests_and_of_what_leaves_the_region():
    assert usd(1000, 0, 10**9, same_region=True) == pytest.approx(0.0004)
    assert usd(1000, 1000, 0, same_region=True) == pytest.approx(0.005)
    assert usd(0, 0, 10**9, same_region=False) == pytest.approx(0.09)
