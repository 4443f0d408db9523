"""Fixes that have an edit which changes less, where the source allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes import case_text
from rewriting import Example, finding_of, script_of, unmarked
from trainperf.fixes import by_id
from trainperf.model import Equivalence

CASES = [
    (id_, better, usual, case_text.rewrites(id_).values())
    for id_, better, usual in (
        ("keras_callback_per_batch", {"last": True}, {"every": 100}),
        ("torch_step_logging", "sink", "seldom"),
    )
]


def cases() -> list[Any]:
    return [
        pytest.param(id_, better, usual, each, id=f"{id_}-{number}")
        for id_, better, usual, examples in CASES
        for number, each in enumerate(examples)
        if each.data["edits"] == [better]
    ]


@pytest.mark.parametrize(("id_", "better", "usual", "case"), cases())
def test_the_source_says_whether_the_edit_changes_nothing(
    id_: str, better: Any, usual: Any, case: Example
) -> None:
    fix = by_id()[id_]
    script, sites = script_of(case.before)
    data = {**case.data, "edits": [usual]}
    finding = finding_of(fix, where=sites, data=data)
    found = fix.as_written(script, finding)
    if unmarked(case.before) == case.after:
        assert replace(found, advice=finding.advice, snippet=finding.snippet) == finding
    else:
        assert (found.equivalence, found.data["edits"]) == (Equivalence.EXACT, [better])
    assert script.diff() == ""


@pytest.mark.parametrize(("better", "examples"), [(one[1], one[3]) for one in CASES])
def test_it_is_made_and_refused(better: Any, examples: list[Example]) -> None:
    cases = [one for one in examples if one.data["edits"] == [better]]
    assert {unmarked(one.before) != one.after for one in cases} == {True, False}
