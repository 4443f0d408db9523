"""Every fix keeps the promises of the interface; the cases are its own."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import pathlib
import re

import pytest

from rewriting import marked, result, script_of
from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import HEADINGS, Example, Fix, all_fixes, detect_all, possible_all
from trainperf.fixes._docs import catalogue_markdown, unmarked
from trainperf.fixes.common.cases import evidence
from trainperf.fixes.common.words import worth
from trainperf.model import Equivalence, Evidence, Finding, Loop, Missing, Times

FIXES = all_fixes()
DEBRIS = re.compile(r"\bNone\b|\bnan\b|\binf\b|  | \(\)|``|[1-9]\.\d{4,}")
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "fixes.md"

every_fix = pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
silent_cases = pytest.mark.parametrize(
    ("fix", "case"),
    [
        pytest.param(fix, case, id=f"{fix.id}-{number}")
        for fix in FIXES
        for number, case in enumerate(fix.silent)
    ],
)
firing_cases = pytest.mark.parametrize(
    ("fix", "case"),
    [
        pytest.param(fix, case, id=f"{fix.id}-{number}")
        for fix in FIXES
        for number, case in enumerate(fix.fires)
    ],
)
cases_not_to_try = pytest.mark.parametrize(
    ("fix", "case"),
    [
        pytest.param(fix, case, id=f"{fix.id}-{number}")
        for fix in FIXES
        for number, case in enumerate(fix.tries_not)
    ],
)
cases_to_try = pytest.mark.parametrize(
    ("fix", "case"),
    [
        pytest.param(fix, case, id=f"{fix.id}-{number}")
        for fix in FIXES
        for number, case in enumerate(fix.tries)
    ],
)
examples = pytest.mark.parametrize(
    ("fix", "example"),
    [
        pytest.param(fix, example, id=f"{fix.id}-{number}")
        for fix in FIXES
        for number, example in enumerate(fix.examples)
    ],
)


def detected(fix: Fix, case: Evidence) -> Finding | None:
    """What the fix finds; None where it abstains."""
    try:
        return fix.detect(case)
    except NotMeasured:
        return None


def found(fix: Fix, case: Evidence) -> Finding:
    finding = fix.detect(case)
    assert finding is not None
    return finding


# ---------------------------------------------------------------------------- silence


@firing_cases
def test_it_is_asked_where_it_fires(fix, case):
    """A fix of another framework would be passed over, whatever it finds."""
    assert fix.id in {finding.id for finding in detect_all(case)}


@silent_cases
def test_it_stays_silent_where_it_must(fix: Fix, case: Evidence) -> None:
    assert detected(fix, case) is None


@every_fix
def test_it_abstains_where_nothing_was_measured(fix: Fix) -> None:
    reason = Missing("not measured")
    case = dataclasses.replace(
        evidence(loop=Loop("fit")),
        times=Times(reason, reason, reason, reason),
        stages_=reason,
        models=(),
    )
    finding = detected(fix, case)

    assert finding is None or finding.bound is None


def test_a_healthy_loop_has_no_findings() -> None:
    priced = [each.id for each in detect_all(evidence()) if each.category != "practice"]

    assert priced == []


@every_fix
def test_it_has_as_many_silent_cases_as_firing_ones(fix: Fix) -> None:
    assert len(fix.silent) >= len(fix.fires) >= 1


# ---------------------------------------------------------------------------- findings


@firing_cases
def test_it_fires_where_it_must(fix: Fix, case: Evidence) -> None:
    finding = found(fix, case)

    assert finding.id == fix.id
    assert finding.title
    assert not finding.title.endswith(".")
    assert finding.advice
    assert finding.bound_basis


@firing_cases
def test_a_bound_stands_out_of_the_noise(fix: Fix, case: Evidence) -> None:
    bound = found(fix, case).bound

    assert bound is None or worth(case, bound)


@firing_cases
def test_only_what_is_outside_the_step_goes_unpriced(fix: Fix, case: Evidence) -> None:
    finding = found(fix, case)

    assert finding.bound is not None or finding.category != "input"


@firing_cases
def test_the_text_gives_sentences_and_no_debris(fix: Fix, case: Evidence) -> None:
    finding = found(fix, case)

    for text in (finding.text, finding.advice, finding.title):
        assert not DEBRIS.search(text), text
        assert not re.match(r"(the|a|an|it|one) ", text), text
    assert finding.text.endswith(".")


SHELL = re.compile(r"(#|export |unset |[A-Z_]+=|pip |aws |python |sudo |nvidia-smi|docker |top )")


@firing_cases
def test_a_snippet_is_python_or_shell(fix: Fix, case: Evidence) -> None:
    lines = [line for line in found(fix, case).snippet.splitlines() if line.strip()]
    if all(SHELL.match(line) for line in lines):
        return
    heads = re.compile(r"^def (\w+)\(\.\.\.\):$")  # a decorator above the user's own def

    ast.parse("\n".join(heads.sub(r"def \1(): pass", line) for line in lines))


@firing_cases
def test_what_it_promises_to_edit_has_exact_places(fix: Fix, case: Evidence) -> None:
    finding = found(fix, case)

    if finding.rewritable:
        assert fix.rewrites or fix.sets_environment
    if finding.rewritable and not fix.sets_environment:
        assert finding.where
        assert all(site.exact for site in finding.where)


@firing_cases
def test_the_variables_it_sets_are_words(fix: Fix, case: Evidence) -> None:
    variables = fix.environment(found(fix, case))

    assert fix.sets_environment == bool(variables)
    for name, value in variables.items():
        assert re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
        assert isinstance(value, str)


@firing_cases
def test_it_says_the_same_twice(fix: Fix, case: Evidence) -> None:
    assert found(fix, case) == found(fix, case)


# ------------------------------------------------------------------------ what to try


@cases_not_to_try
def test_it_is_not_tried_where_there_is_nothing_to_try(fix: Fix, case: Evidence) -> None:
    assert fix.id not in {finding.id for finding in possible_all(case, found=())}


@cases_to_try
def test_it_is_tried_where_nothing_is_found(fix: Fix, case: Evidence) -> None:
    assert detected(fix, case) is None
    assert fix.id in {finding.id for finding in possible_all(case, found=())}


@cases_to_try
def test_what_is_tried_says_what_is_there(fix: Fix, case: Evidence) -> None:
    finding = fix.possible(case)

    assert finding is not None
    assert finding.title
    assert finding.advice
    assert finding.bound_basis
    assert finding.bound is None or finding.bound > 0
    for text in (finding.text, finding.advice, finding.title):
        assert not DEBRIS.search(text), text
        assert not re.match(r"(the|a|an|it|one) ", text), text
    assert finding.text.endswith(".")


@every_fix
def test_it_is_left_alone_in_as_many_cases_as_it_is_tried(fix: Fix) -> None:
    own = type(fix).possible is not Fix.possible

    assert len(fix.tries_not) >= len(fix.tries) >= own


# ---------------------------------------------------------------------------- rewrites


@examples
def test_it_rewrites_as_its_example_says(fix: Fix, example: Example) -> None:
    script, sites = script_of(example.before)
    finding = fix.finding(
        title="", text="", bound=None, bound_basis="", where=sites, data=example.data
    )
    before, _ = marked(example.before)

    if before == example.after:
        try:
            fix.rewrite(script, finding)
        except CannotRewrite:
            pass
        assert result(script) in (None, before)
    else:
        fix.rewrite(script, finding)
        assert result(script) == example.after


@examples
def test_a_saved_finding_is_rewritten_as_a_new_one(fix: Fix, example: Example) -> None:
    """`trainperf fix` reads findings back from JSON, in which tuples became lists."""
    results = []
    for data in (example.data, json.loads(json.dumps(example.data))):
        script, sites = script_of(example.before)
        finding = fix.finding(title="", text="", bound=None, bound_basis="", where=sites, data=data)
        with contextlib.suppress(CannotRewrite):
            fix.rewrite(script, finding)
        results.append(result(script))

    assert results[0] == results[1]


@every_fix
def test_examples_come_with_a_rewrite_and_a_rewrite_with_examples(fix: Fix) -> None:
    assert fix.rewrites == bool(fix.examples)
    if fix.rewrites:
        assert any(unmarked(example.before) != example.after for example in fix.examples)


@examples
def test_an_example_is_python_before_and_after(fix: Fix, example: Example) -> None:
    ast.parse(unmarked(example.before))
    ast.parse(example.after)


# -------------------------------------------------------------------------------- text


@every_fix
def test_its_first_line_is_the_repair_in_one_sentence(fix: Fix) -> None:
    assert re.fullmatch(r"[A-Z].*\.", fix.summary)
    assert len(fix.summary) <= 90
    assert not fix.documentation.splitlines()[1]


@every_fix
def test_its_text_has_the_headings_in_order_with_a_few_lines_each(fix: Fix) -> None:
    headings = re.findall(r"^## .*$", fix.documentation, re.MULTILINE)
    bodies = re.split(r"^## .*$", fix.documentation, flags=re.MULTILINE)[1:]

    assert tuple(headings) == HEADINGS
    for body in bodies:
        assert 1 <= len(body.strip().splitlines()) <= 8, body


@every_fix
def test_it_says_what_it_may_change(fix: Fix) -> None:
    assert isinstance(fix.equivalence, Equivalence)
    assert fix.framework in ("tensorflow", "torch", "any")


def test_ids_are_unique() -> None:
    ids = [fix.id for fix in FIXES]

    assert len(set(ids)) == len(ids)


def test_the_page_of_fixes_is_up_to_date() -> None:
    written = DOCS.read_text(encoding="utf-8") if DOCS.exists() else ""

    assert written == catalogue_markdown(), (
        "docs/fixes.md is behind the fixes: "
        "python -m trainperf.fixes._docs > docs/fixes.md makes it anew"
    )
