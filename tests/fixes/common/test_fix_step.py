"""The worth of a faster step to the loop."""

from __future__ import annotations

import pytest

from trainperf.errors import NotMeasured
from trainperf.fixes.common.cases import evidence, probe
from trainperf.fixes.common.step import bound_by, bound_if_saved, gpu_utilization, step_may_matter
from trainperf.model import Missing, PhaseUse


def test_a_step_that_is_all_of_the_loop_gives_the_whole_ratio() -> None:
    seen = evidence(real=0.1, resident=0.1, input=0.001)
    assert bound_by(seen, probe(4.0)) == pytest.approx(4.0)


def test_the_loop_never_gets_faster_than_its_input() -> None:
    seen = evidence(real=0.1, resident=0.1, input=0.08)
    assert bound_by(seen, probe(10.0)) == pytest.approx(0.1 / 0.08)


def test_without_overlap_only_the_step_gets_shorter() -> None:
    seen = evidence(real=0.1, resident=0.04, input=0.06)
    assert bound_by(seen, probe(2.0)) == pytest.approx(0.1 / 0.08)


def test_a_bound_is_at_least_one_where_noise_makes_the_input_longer_than_the_step() -> None:
    assert bound_if_saved(evidence(real=0.1, input=0.11), 0.05) == 1.0


def test_an_input_that_was_not_measured_caps_nothing() -> None:
    assert bound_if_saved(evidence(real=0.1, input=None), 0.05) == pytest.approx(2.0)


def test_a_bound_without_a_real_time_is_not_given() -> None:
    with pytest.raises(NotMeasured):
        bound_if_saved(evidence(real=None), 0.05)


def test_a_probe_stands_in_for_a_resident_time_that_was_not_taken() -> None:
    seen = evidence(real=0.1, resident=None, input=None)
    assert bound_by(seen, probe(2.0)) == pytest.approx(0.1 / 0.095)


def test_a_step_may_matter_where_nothing_tells_that_it_does_not() -> None:
    assert step_may_matter(evidence(resident=None))
    assert step_may_matter(evidence(real=0.1, resident=0.09, input=0.01))
    assert not step_may_matter(evidence(real=0.1, resident=0.002, input=0.099))


def test_the_utilisation_of_a_gpu_nobody_sampled_is_none_and_not_zero() -> None:
    assert gpu_utilization(evidence()) is None
    unsaid = PhaseUse("resident", 3, gpu=({"utilization_percent": None},))
    assert gpu_utilization(evidence(use=(unsaid,))) is None


def test_the_busiest_gpu_counts() -> None:
    use = PhaseUse("resident", 3, gpu=({"utilization_percent": 20}, {"utilization_percent": 90.0}))
    assert gpu_utilization(evidence(use=(use,))) == pytest.approx(0.9)


def test_a_probe_that_was_not_run_says_why() -> None:
    seen = evidence(probes={"compiled": Missing("tracing failed")})
    with pytest.raises(NotMeasured, match="tracing failed"):
        seen.probe("compiled")
