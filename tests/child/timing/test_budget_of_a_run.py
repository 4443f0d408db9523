"""The one clock of a diagnosis, as the observed process reads it."""

import pytest

from trainperf.child.timing.budget import (
    Budget,
)

ASKED = {"began": 1000.0, "budget_s": 180.0, "trials": True}


def test_a_limit_that_the_user_set_holds():
    budget = Budget({**ASKED, "measure_s": 5.0, "extra_s": 2.0}, 0.0)
    assert (budget.measure_by(1020.0), budget.extra_by(1030.0)) == (1025.0, 1032.0)
    assert "`extra` allows 2 s" in budget.lacking(30.0, 1032.0)


@pytest.mark.parametrize(("at", "takes"), [(1098.0, 2.0), (1098.0, 40.0), (1170.0, 600.0)])
def test_the_budget_that_is_named_would_do(at, takes):
    said = Budget(ASKED, 0.0).lacking(takes, at)
    minutes = int(said.rpartition("--budget ")[2].partition("min")[0])
    assert minutes > 3
    longer = Budget({**ASKED, "budget_s": 60.0 * minutes}, 0.0)
    assert at + takes <= longer.extra_by(at)
