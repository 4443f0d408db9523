"""A fix that has an edit which changes less, where the source allows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes import case_text
from rewriting import Example, finding_of, script_of, unmarked
from trainperf.fixes import by_id
from trainperf.model import Equivalence

FIX = by_id()["keras_callback_per_batch"]
BETTER, USUAL = {"last": True}, {"every": 100}
CASES = [
    example for example in case_text.rewrites(FIX.id).values() if example.data["edits"] == [BETTER]
]


@pytest.mark.parametrize("case", CASES)
def test_the_source_says_whether_the_edit_changes_nothing(case: Example) -> None:
    script, sites = script_of(case.before)
    finding = finding_of(FIX, where=sites, data={**case.data, "edits": [USUAL]})
    found = FIX.as_written(script, finding)
    if unmarked(case.before) == case.after:
        assert replace(found, advice=finding.advice, snippet=finding.snippet) == finding
    else:
        assert (found.equivalence, found.data["edits"]) == (Equivalence.EXACT, [BETTER])
    assert script.diff() == ""


def test_it_is_made_and_refused() -> None:
    assert {unmarked(case.before) != case.after for case in CASES} == {True, False}
