"""How bad a finding is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.samples import ALL_OUTCOMES, INPUT_BOUND, PARALLEL_MAP
from trainperf.commands.outputs import exit_status
from trainperf.model import Outcome, Trial
from trainperf.report.level import Judgement, failing
from trainperf.settings import FailOn


@pytest.mark.parametrize(
    ("fail_on", "ids"),
    [
        ("none", set()),
        ("any", {"tf_map_parallel", "tf_cache"}),
        (1.7, {"tf_map_parallel", "tf_cache"}),
        (3.0, {"tf_cache"}),
        (4.1, set()),
    ],
)
def test_a_finding_counts_by_its_bound(fail_on: FailOn, ids: set[str]) -> None:
    assert failing(INPUT_BOUND, fail_on) == ids


@pytest.mark.parametrize("fail_on", ["none", "any", 1.2, 1.5, 1.95, 3.0, 3.15, 4.0])
@pytest.mark.parametrize("sample", [INPUT_BOUND, ALL_OUTCOMES])
def test_something_is_an_error_exactly_where_the_exit_status_is_1(sample, fail_on) -> None:
    judged = Judgement(fail_on)
    levels = {judged.level(one, sample) for one in sample.findings}
    assert ("error" in levels) == (exit_status(sample, fail_on) == 1)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_fix_that_was_tried_in_vain_is_a_note(outcome: Outcome) -> None:
    tried = replace(INPUT_BOUND, trials=(Trial("tf_map_parallel", outcome, ""),))
    worth = (Outcome.KEPT, Outcome.CHANGES, Outcome.NOT_TRIED)
    wanted = "warning" if outcome in worth else "note"
    assert Judgement().level(PARALLEL_MAP, tried) == wanted
