"""No bound promises more than the experiment it rests on showed, nor for longer."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.common.step import bound_if_saved, saved_by
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_data.padding import TfPaddingBuckets
from trainperf.fixes.tf_step.graphs import TfRetracing
from trainperf.model import Finding

SLOWER_ALONE = evidence_of("rnn_padded_text | times.real = 0.06; times.resident = 0.067")


def test_a_resident_step_that_ran_in_a_slow_moment_does_not_raise_the_bound_over_the_probe():
    probe = SLOWER_ALONE.probe("jit_compile")
    assert bound_if_saved(SLOWER_ALONE, saved_by(SLOWER_ALONE, probe)) == pytest.approx(probe.ratio)


def test_batching_by_length_promises_no_more_than_the_lengths_say():
    (finding,) = shown_findings(SLOWER_ALONE, among=[TfPaddingBuckets()])
    lengths = SLOWER_ALONE.padding
    assert lengths is not None
    assert finding.bound == pytest.approx(lengths.padded_length / lengths.bucketed_length)


def retraced(fields: str = "") -> Finding:
    (found,) = shown_findings(evidence_of(f"retracing | {fields}"), among=[TfRetracing()])
    return found


def test_no_bound_is_given_where_no_step_ran_without_tracing():
    assert retraced().bound is None
    assert retraced("retracing.count = 20").bound is not None


@pytest.mark.parametrize(
    ("fields", "lasts"),
    [("", True), ("retracing.count = 20", False), ("retracing.numbers = []", False)],
)
def test_it_lasts_where_a_number_made_each_step_a_new_one(fields: str, lasts: bool) -> None:
    assert TfRetracing().lasts(retraced(fields)) is lasts
