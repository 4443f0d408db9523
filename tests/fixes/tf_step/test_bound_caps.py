"""No bound promises more than the experiment it rests on showed."""

from __future__ import annotations

import pytest

from fixes.cases.common.cases import evidence, probe
from trainperf.fixes.common.step import bound_by
from trainperf.fixes.tf_data.tf_padding_buckets import PaddingBuckets
from trainperf.fixes.tf_step.tf_retracing import StopRetracing
from trainperf.model import Padding, Retracing


def test_a_resident_step_that_ran_in_a_slow_moment_does_not_raise_the_bound_over_the_probe() -> (
    None
):
    seen = evidence(real=0.100, resident=0.113, input=0.001)
    assert bound_by(seen, probe(7.5)) == pytest.approx(7.5)


def test_batching_by_length_promises_no_more_than_the_lengths_say() -> None:
    seen = evidence(real=0.040, resident=0.046, input=0.001, padding=Padding(43, 240, 60, 640))
    finding = PaddingBuckets().detect(seen)
    assert finding is not None
    assert finding.bound == pytest.approx(4.0)


def test_no_bound_is_given_where_no_step_ran_without_tracing() -> None:
    cause = "a Python value among the arguments changes from call to call"
    every = StopRetracing().detect(evidence(retracing=Retracing("train_step", 56, 57, 4.0, cause)))
    some = StopRetracing().detect(evidence(retracing=Retracing("train_step", 20, 57, 4.0, cause)))
    assert every is not None
    assert every.bound is None
    assert some is not None
    assert some.bound is not None
