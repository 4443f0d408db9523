"""From findings to one patch; what could not be written is named with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, NotTaken, Patch
from trainperf.rewrite.script import Reader, Script, default_reader

SEMANTICS = "changes the experiment (semantics): not in the default patch"


def build_patch(
    root: str | Path,
    findings: Sequence[Finding],
    fixes: Mapping[str, Fix],
    read: Reader = default_reader,
) -> Patch:
    """Write the edits of all rewritable findings, first come first served; never raises.

    A finding whose edit does not go together with those before it is skipped, as is
    one that changes the experiment.
    """
    script = Script(root, read)
    diff, taken, skipped = "", [], []
    for finding in findings:
        if not finding.rewritable:
            continue
        try:
            if finding.equivalence is Equivalence.SEMANTICS:
                raise CannotRewrite(SEMANTICS)
            script, diff = _rewritten(script, finding, fixes.get(finding.id), diff)
            taken.append(finding.id)
        except CannotRewrite as error:
            skipped.append(NotTaken(finding.id, error.reason))
    return Patch(diff, tuple(dict.fromkeys(taken)), tuple(skipped))


def preview(
    root: str | Path, finding: Finding, fix: Fix | None, read: Reader = default_reader
) -> str:
    """Return the diff of one finding alone, '' if it cannot be written; never raises."""
    try:
        return _rewritten(Script(root, read), finding, fix, "")[1]
    except CannotRewrite:
        return ""


def _rewritten(
    script: Script, finding: Finding, fix: Fix | None, before: str
) -> tuple[Script, str]:
    """Return a copy of `script` with the finding's edits, and its diff."""
    if fix is None or not fix.rewrites:
        raise CannotRewrite("no fix of that name can edit source")
    attempt = script.copy()
    try:
        fix.rewrite(attempt, finding)
        diff = attempt.diff()
    except CannotRewrite:
        raise
    except Exception as error:  # a fix gone wrong must not cost the report
        raise CannotRewrite(f"the rewrite failed: {type(error).__name__}: {error}") from error
    if diff == before:
        raise CannotRewrite("the source has it already")
    return attempt, diff
