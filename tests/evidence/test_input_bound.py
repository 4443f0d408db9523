"""When a step is bound by its input: only where the input can be what it loses."""

from __future__ import annotations

from fixes.case_text import evidence_of


def test_an_input_of_next_to_nothing_is_not_what_an_own_loop_waits_for():
    quick = "times.real = 0.0156; times.resident = 0.0133; times.input = 0.000136"
    assert not evidence_of(f"eager_loop | {quick}").input_bound
    # the same in `fit` is handing over, which no drain of the input shows
    assert evidence_of(f"slow_images | {quick}").input_bound
