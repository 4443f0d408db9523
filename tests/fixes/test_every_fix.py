"""Every fix keeps the promises of the interface; the cases are its own."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import pathlib
import re

import pytest

import zoo.seen
from fixes import case_text
from fixes.case_text import Case
from rewriting import Example, finding_of, marked, result, script_of, unmarked
from trainperf.errors import CannotRewrite
from trainperf.fixes import HEADINGS, Fix, all_fixes
from trainperf.fixes._docs import catalogue_markdown
from trainperf.fixes._unseen import UNSEEN
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.model import Equivalence, Evidence, Finding, Missing, Times
from zoo.oracle import kept_answer

FIXES = all_fixes()
DEBRIS = re.compile(r"\bNone\b|\bnan\b|\binf\b|  | \(\)|``|[1-9]\.\d{4,}")
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "fixes.md"

every_fix = pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
SHELL = re.compile(
    r"(#|[A-Z_]+=|(export|unset|pip|aws|python|sudo|docker|numactl|top|torchrun) |nvidia-smi)"
)
HEAD = re.compile(r"^def (\w+)\(\.\.\.\):$")
"""A decorator above the user's own def."""


def each(kind: str) -> pytest.MarkDecorator:
    """A test for each of the lines of this kind."""
    return pytest.mark.parametrize(
        ("fix", "case"),
        [
            pytest.param(fix, case, id=f"{fix.id}-{number}")
            for fix in FIXES
            for number, case in enumerate(lines(fix, kind))
        ],
    )


def lines(fix: Fix, kind: str) -> list[Case]:
    return [case for case in case_text.cases(fix.id) if case.kind == kind]


def found_in(fix: Fix, case: Evidence) -> Finding | None:
    """What the fix finds; None where it abstains, or is not for such a script."""
    return next(iter(shown_findings(case, among=[fix])), None)


def to_try(fix: Fix, case: Evidence) -> Finding | None:
    """What the fix would try; None where that is nothing."""
    return next(iter(findings_to_try(case, found=(), among=[fix])), None)


def stated_otherwise(fix: Fix, case: Case, kind: str) -> bool:
    """Whether another line lays the same fields, or more, over a recording, to the other effect.

    True of what is laid over nothing: a case must be silent for what it lays, not for all else.
    """
    paths = {path for path, _ in case.laid}
    others = ({path for path, _ in other.laid} for other in lines(fix, kind))
    return not paths or any(paths <= other for other in others)


# ---------------------------------------------------------------------------- silence


@each("no")
def test_it_stays_silent_where_it_must(fix: Fix, case: Case) -> None:
    assert found_in(fix, case.evidence) is None
    assert stated_otherwise(fix, case, "yes") or any(
        found_in(fix, less.evidence) for less in case.shorter()
    )


@every_fix
@pytest.mark.parametrize("name", ["healthy", "torch_healthy"])
def test_it_abstains_where_nothing_was_measured(fix: Fix, name: str) -> None:
    reason = Missing("not measured")
    case = dataclasses.replace(
        case_text.evidence_of(name),
        times=Times(reason, reason, reason, reason),
        stages_=reason,
        models=(),
    )
    finding = found_in(fix, case)

    assert finding is None or finding.bound is None


@pytest.mark.parametrize("name", ["healthy", "torch_healthy"])
def test_a_healthy_loop_has_no_findings(name: str) -> None:
    assert kept_answer(name)["findings"] == []


@every_fix
def test_it_has_cases_on_both_sides(fix: Fix) -> None:
    assert len(lines(fix, "no")) >= len(lines(fix, "yes")) >= 1
    assert len(lines(fix, "idle")) >= len(lines(fix, "try"))


@every_fix
def test_a_real_run_shows_it_or_it_says_what_that_takes(fix: Fix) -> None:
    found = zoo.seen.recordings("findings")[fix.id]
    tried = zoo.seen.recordings("possible")[fix.id]

    assert (fix.id in UNSEEN) == (not found and not tried)
    bare = {(case.kind, case.recording) for case in case_text.cases(fix.id) if not case.laid}
    expected = {("yes", name) for name in found} or {("try", name) for name in tried}
    assert not expected or expected & bare


def test_what_an_edit_needs_is_read_by_fixes_alone() -> None:
    package = zoo.REPOSITORY / "src/trainperf"
    readers = {
        file.relative_to(package).parts[0]
        for file in package.rglob("*.py")
        if re.search(r"\.data(\[|\.get\()", file.read_text("utf-8"))
    }
    assert readers == {"fixes"}


def test_every_file_of_cases_is_of_a_fix() -> None:
    assert set(case_text.files()) == {fix.id for fix in FIXES}


# ---------------------------------------------------------------------------- findings


@each("yes")
def test_it_fires_where_it_must(fix: Fix, case: Case) -> None:
    finding = found_in(fix, case.evidence)

    assert finding is not None, "or it is of another framework, where it would be passed over"
    assert finding == found_in(fix, case.evidence), "it says the same twice"
    assert finding.id == fix.id, "it names itself"
    if finding.bound is None:
        assert finding.category != "input", "only what is outside the step goes unpriced"
    else:
        assert finding.bound > 1
    assert not finding.title.endswith(".")
    reads_well(finding)
    pastes(finding)
    names_what_it_edits(fix, finding)


def reads_well(finding: Finding) -> None:
    """Its texts are sentences, and no debris of what was put into them."""
    assert finding.title
    assert finding.advice
    assert finding.bound_basis
    for text in (finding.text, finding.advice, finding.title):
        assert not DEBRIS.search(text), text
        assert not re.match(r"(the|a|an|it|one) ", text), text
    assert finding.text.endswith(".")


def pastes(finding: Finding) -> None:
    """Its snippet is Python or a shell's."""
    lines = [line for line in finding.snippet.splitlines() if line.strip()]
    if not all(SHELL.match(line) for line in lines):
        ast.parse("\n".join(HEAD.sub(r"def \1(): pass", line) for line in lines))


def names_what_it_edits(fix: Fix, finding: Finding) -> None:
    """What it edits has exact places, or is a function; the variables it sets are words."""
    if finding.rewritable:
        assert fix.rewrites or fix.sets_environment
    if finding.rewritable and not fix.sets_environment:
        assert finding.where
        # the head of a function has a line only
        assert all(site.exact or not site.col for site in finding.where)
    variables = fix.environment(finding)
    assert (fix.sets_environment and finding.rewritable) == bool(variables)
    for name, value in variables.items():
        assert re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
        assert isinstance(value, str)


# ------------------------------------------------------------------------ what to try


@each("idle")
def test_it_is_not_tried_where_there_is_nothing_to_try(fix: Fix, case: Case) -> None:
    assert to_try(fix, case.evidence) is None
    assert stated_otherwise(fix, case, "try") or any(
        to_try(fix, less.evidence) for less in case.shorter()
    )


@each("try")
def test_it_is_tried_where_nothing_is_found(fix: Fix, case: Case) -> None:
    assert found_in(fix, case.evidence) is None
    finding = to_try(fix, case.evidence)
    assert finding is not None
    assert finding.bound is None or finding.bound > 0
    reads_well(finding)


# ---------------------------------------------------------------------------- rewrites


@pytest.mark.parametrize(
    ("fix", "case"),
    [
        pytest.param(fix, case, id=f"{fix.id}-{title}")
        for fix in FIXES
        for title, case in case_text.rewrites(fix.id).items()
    ],
)
def test_it_rewrites_as_its_example_says(fix: Fix, case: Example) -> None:
    ast.parse(unmarked(case.before))
    ast.parse(case.after)
    before, _ = marked(case.before)
    # `trainperf fix` reads findings back from JSON, in which tuples became lists
    new, saved = (rewritten(fix, case, data) for data in (case.data, reread(case.data)))
    assert new == saved
    if before == case.after:
        assert new in (None, before)
    else:
        assert new == case.after


def rewritten(fix: Fix, case: Example, data: dict[str, object]) -> str | None:
    """The script after its rewrite, None where that was refused."""
    script, sites = script_of(case.before)
    finding = finding_of(fix, where=sites, data=data)
    with contextlib.suppress(CannotRewrite):
        fix.rewrite(script, finding)
    return result(script)


def reread(data: dict[str, object]) -> dict[str, object]:
    """The data of a finding as JSON gives it back."""
    again: dict[str, object] = json.loads(json.dumps(data))
    return again


@every_fix
def test_a_fix_without_an_edit_says_why(fix: Fix) -> None:
    edits = fix.rewrites or fix.sets_environment
    own = "without_edit" in vars(type(fix))
    assert not (edits and own)
    assert edits or own or fix.equivalence is Equivalence.ENVIRONMENT


@every_fix
def test_examples_come_with_a_rewrite_and_a_rewrite_with_examples(fix: Fix) -> None:
    examples = case_text.rewrites(fix.id).values()

    assert fix.rewrites == bool(examples)
    if fix.rewrites:
        assert any(unmarked(example.before) != example.after for example in examples)


# -------------------------------------------------------------------------------- text


@every_fix
def test_its_text_is_of_the_form_of_the_catalogue(fix: Fix) -> None:
    assert re.fullmatch(r"[A-Z].*\.", fix.summary), "its first line is the repair in a sentence"
    assert len(fix.summary) <= 90
    assert not fix.documentation.splitlines()[1]
    assert isinstance(fix.equivalence, Equivalence)
    assert fix.framework in ("tensorflow", "torch", "keras", "any")
    headings = re.findall(r"^## .*$", fix.documentation, re.MULTILINE)
    bodies = re.split(r"^## .*$", fix.documentation, flags=re.MULTILINE)[1:]
    assert tuple(headings) == HEADINGS
    for body in bodies:
        assert 1 <= len(body.strip().splitlines()) <= 8, body


def test_ids_are_unique() -> None:
    ids = [fix.id for fix in FIXES]

    assert len(set(ids)) == len(ids)


def test_the_page_of_fixes_is_up_to_date() -> None:
    written = DOCS.read_text(encoding="utf-8") if DOCS.exists() else ""

    assert written == catalogue_markdown(), (
        "docs/fixes.md is behind the fixes: "
        "python -m trainperf.fixes._docs > docs/fixes.md makes it anew"
    )
