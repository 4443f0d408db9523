"""What today's code answers on each recording: `cd tests && python -m zoo.oracle [NAME…]`.

Redesigns of evidence and fixes are held to it: a change of an answer is a diff to be reviewed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import zoo
from trainperf.diagnose import Request
from trainperf.diagnose.judging import as_written, first_verdict, patch_root
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try
from trainperf.model import Diagnosis, Finding, Run
from trainperf.patch.patch import Edits

ANSWERS = Path(__file__).parent / "answers"


def diagnose(recorded: zoo.Recorded) -> tuple[Diagnosis, tuple[Finding, ...]]:
    """The first verdict on a recording, and what would be tried beside its findings."""
    run, evidence = recorded.recording.run, recorded.evidence
    request = Request(run, Path("/nowhere"), trials=False)
    first = first_verdict(request, recorded.recording, evidence)
    found = findings_to_try(evidence, [finding.id for finding in first.findings])
    return first, as_written(found, run.cwd)


def answer(first: Diagnosis, possible: tuple[Finding, ...], run: Run) -> dict[str, Any]:
    """The verdict, the findings and their edits, as JSON holds them."""
    verdict = first.verdict
    return {
        "verdict": {
            "bottleneck": verdict.bottleneck,
            "text": verdict.text,
            "utilization": _rounded(verdict.utilization),
            "healthy": verdict.healthy,
            "grade": verdict.grade,
        },
        "findings": [_finding(run, finding) for finding in first.findings],
        "possible": [_finding(run, finding) for finding in possible],
    }


def _finding(run: Run, finding: Finding) -> dict[str, Any]:
    """A finding, with its edit alone, or why there is none."""
    root = patch_root(run, (finding,))
    patch = Edits(root, by_id()).write((finding,), only=(finding.id,) * finding.rewritable).patch
    return {
        "id": finding.id,
        "bound": _rounded(finding.bound),
        "at best": _rounded(finding.at_best),
        "equivalence": finding.equivalence.value,
        "where": [f"{Path(site.file).name}:{site.line}" for site in finding.where],
        **({"diff": patch.diff.splitlines()} if patch.diff else {}),
        **({"environment": patch.environment} if patch.environment else {}),
        **({"arguments": list(patch.arguments)} if patch.arguments else {}),
        **({"no edit": patch.skipped[0].reason} if patch.skipped else {}),
    }


def _rounded(value: float | None) -> float | None:
    """Three digits: the last ones of a sum are not the same on all versions of Python."""
    return None if value is None else float(f"{value:.3g}")


def kept_answer(name: str) -> dict[str, Any]:
    """The answer that is kept of a recording."""
    kept: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    return kept


def main() -> None:
    ANSWERS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or zoo.SCRIPTS:
        recorded = zoo.load(name)
        made = answer(*diagnose(recorded), recorded.recording.run)
        text = json.dumps(made, indent=1, ensure_ascii=False)
        (ANSWERS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
