"""Where else in the files of a kept change its cause stands, in places that no step reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainperf.lint.check import lint
from trainperf.lint.rules import all_rules
from trainperf.model import Diagnosis, Finding, Site
from trainperf.report.plain import places


def with_elsewhere(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis, whose kept findings name the other places of the same cause.

    By the rules of `trainperf lint`, which need no run (a second loop, the pipeline of the
    validation), else by a call that is written the same. These are not edited, as nothing of
    them was measured.
    """
    kept = {trial.fix for trial in diagnosis.trials if trial.kept}
    return replace(
        diagnosis,
        findings=tuple(
            _named(one, diagnosis.cwd) if one.id in kept else one for one in diagnosis.findings
        ),
    )


def _named(finding: Finding, cwd: str) -> Finding:
    others = tuple(dict.fromkeys(_others(finding)))
    if not others:
        return finding
    told = places(others, cwd)
    text = f"The same stands at {told}, of which this run measured nothing: it is not edited."
    return replace(finding, text=f"{finding.text} {text}".strip())


def _others(finding: Finding) -> Iterator[Site]:
    """The places in the finding's files that its rule remarks on, but for its own."""
    rules = [rule for rule in all_rules() if rule.id == finding.id]
    if not rules:
        yield from (other for site in finding.where if site.exact for other in _written_so(site))
        return
    own = {
        (site.file, line)
        for site in finding.where
        for line in range(site.line, max(site.line, site.end_line) + 1)
    }
    files = sorted({file for file, _ in own})
    for remark in lint(map(Path, files), rules).seen:
        file, lines = str(remark.path), range(remark.line, remark.last_line + 1)
        if not remark.cell and not own & {(file, line) for line in lines}:
            yield Site(file, remark.line)


def _written_so(site: Site) -> Iterator[Site]:
    """Other places of a file at which the call at `site` stands, word for word."""
    try:
        text = Path(site.file).read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    end = (site.end_line, site.end_col)
    own = [one for one in calls if (one.lineno, one.col_offset) == (site.line, site.col)]
    own = [one for one in own if (one.end_lineno, one.end_col_offset) == end]
    for call in calls:
        if any(call is not one and ast.dump(call) == ast.dump(one) for one in own):
            yield Site(site.file, call.lineno)
