"""How bad a finding is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.samples import ALL_OUTCOMES, CACHE, INPUT_BOUND, PARALLEL_MAP
from trainperf.commands.exit_status import exit_status
from trainperf.model import Outcome, Stack, Trial
from trainperf.report.level import Judgement, failing
from trainperf.settings import FailOn, Settings

STACK = Stack(("tf_cache",), 2.0, 1.9, 2.1, 9, 90, None, 0.1, 0.05)


@pytest.mark.parametrize(
    ("fail_on", "ids"),
    [
        ("none", set()),
        ("any", {"tf_map_parallel", "tf_cache"}),
        (2.0, {"tf_map_parallel", "tf_cache"}),
        (3.0, {"tf_cache"}),
        (4.1, set()),
    ],
)
def test_a_finding_counts_by_its_bound(fail_on: FailOn, ids: set[str]) -> None:
    assert failing(INPUT_BOUND, fail_on) == ids


def test_a_finding_without_a_bound_may_be_worth_anything() -> None:
    unknown = replace(INPUT_BOUND, findings=(replace(CACHE, bound=None),))
    assert failing(unknown, 9.0) == {"tf_cache"}


def test_what_was_measured_counts_more_than_the_bound() -> None:
    trial = Trial("tf_cache", Outcome.KEPT, "", 1.3, 1.2, 1.4, kept=True)
    measured = replace(INPUT_BOUND, findings=(CACHE,), trials=(trial,))
    assert failing(measured, 1.5) == set()
    assert failing(measured, 1.2) == {"tf_cache"}


def test_fixes_that_are_worth_it_together_all_count() -> None:
    assert failing(replace(INPUT_BOUND, findings=(), stack=STACK), 1.9) == {"tf_cache"}
    assert failing(replace(INPUT_BOUND, findings=(), stack=STACK), 2.1) == set()


@pytest.mark.parametrize("fail_on", ["none", "any", 1.2, 1.5, 1.95, 3.0, 3.15, 4.0])
@pytest.mark.parametrize("sample", [INPUT_BOUND, ALL_OUTCOMES])
def test_something_is_an_error_exactly_where_the_exit_status_is_1(sample, fail_on) -> None:
    judged = Judgement(fail_on)
    levels = {judged.level(one, sample) for one in (*sample.findings, *sample.practices)}
    assert ("error" in levels) == (exit_status(sample, Settings(fail_on=fail_on)) == 1)


def test_practices_are_notes_whatever_fails() -> None:
    practice = INPUT_BOUND.practices[0]
    assert Judgement("any").level(practice, INPUT_BOUND) == "note"


@pytest.mark.parametrize("outcome", Outcome)
def test_a_fix_that_was_tried_in_vain_is_a_note(outcome: Outcome) -> None:
    tried = replace(INPUT_BOUND, trials=(Trial("tf_map_parallel", outcome, ""),))
    worth = (Outcome.KEPT, Outcome.CHANGES, Outcome.NOT_TRIED)
    wanted = "warning" if outcome in worth else "note"
    assert Judgement().level(PARALLEL_MAP, tried) == wanted
