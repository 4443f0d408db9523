"""The findings as SARIF 2.1.0, for code scanning and for editors.

The format: OASIS, Static Analysis Results Interchange Format, version 2.1.0.
"""

from __future__ import annotations

import hashlib
import json
import os.path
import shlex
from typing import Any
from urllib.parse import quote

from trainperf.fixes import HEADINGS, by_id
from trainperf.model import Diagnosis, Finding, Site, Trial, by_fix
from trainperf.model.diagnosis import Ignored
from trainperf.recording.cells import is_notebook, spot
from trainperf.report import ignored as ignoring
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement
from trainperf.report.plain import inside, one_line, plain
from trainperf.report.sections import step
from trainperf.report.sections.findings import advice, gives

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name by which SARIF knows the root of the repository; GitHub's as well."""

Json = dict[str, Any]


def render(
    diagnosis: Diagnosis,
    *,
    judgement: Judgement = ASKED_FOR_NOTHING,
    root: str = "",
    suppressed: bool = True,
) -> str:
    """Return one run with a result for each finding.

    Files beneath `root`, the repository's, are relative to it. What the source says to
    ignore is a result with a suppression, unless `suppressed` is false: GitHub's code
    scanning reads no suppressions and opens an alert for each.
    """
    root = root or diagnosis.cwd
    ignored = diagnosis.ignored if suppressed else ()
    findings = (*diagnosis.findings, *(one.finding for one in ignored))
    ids = list(dict.fromkeys(one.id for one in findings))
    results = [
        _result(one, diagnosis, judgement, root, ids.index(one.id)) for one in diagnosis.findings
    ]
    if ignored:  # where one result has it, all are to have it
        results = [{**one, "suppressions": []} for one in results]
        results += [_suppressed(one, diagnosis, root, ids) for one in ignored]
    first = {one.id: one for one in reversed(findings)}
    driver = {
        "name": "trainperf",
        "version": diagnosis.trainperf_version,
        "rules": [_rule(first[id_]) for id_ in ids],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(diagnosis, judgement)],
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"trainperf/{one_line(diagnosis.script)}/"},
        "results": results,
    }
    whole = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _rule(finding: Finding) -> Json:
    """The rule of a finding, whatever the run: from the catalogue, where it knows the id."""
    fix = by_id().get(finding.id)
    found: Json = {
        "id": finding.id,
        "shortDescription": {"text": plain(finding.title) if fix is None else fix.summary},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["performance", finding.category if fix is None else fix.category]},
    }
    if fix is not None:
        why = fix.documentation.partition(HEADINGS[0])[2].partition(HEADINGS[1])[0]
        found["fullDescription"] = {"text": " ".join(why.split()) or fix.summary}
        found["help"] = {"text": fix.documentation, "markdown": fix.documentation}
    return found


def _result(
    finding: Finding, diagnosis: Diagnosis, judgement: Judgement, root: str, index: int
) -> Json:
    trial = by_fix(diagnosis.trials).get(finding.id)
    worth = f"{gives(finding, diagnosis)}."
    told = finding.text, advice(finding, trial)
    parts = (f"{finding.title}.", worth[:1].upper() + worth[1:], *told)
    places = finding.where or _stand_in(diagnosis)
    result: Json = {
        "ruleId": finding.id,
        "ruleIndex": index,
        "level": judgement.level(finding, diagnosis),
        "message": _message(" ".join(one for one in parts if one)),
        "locations": [_location(site, root) for site in places[:1]],
        "partialFingerprints": {"trainperfFinding/v1": _fingerprint(finding, root)},
        "properties": _properties(finding, trial),
    }
    if not finding.where and places:
        result["locations"][0]["message"] = {"text": "it has no place of its own in the source"}
    if len(places) > 1:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": "here as well"}, **_location(site, root)}
            for number, site in enumerate(places[1:], start=1)
        ]
    return result


def _suppressed(one: Ignored, diagnosis: Diagnosis, root: str, ids: list[str]) -> Json:
    result = _result(one.finding, diagnosis, ASKED_FOR_NOTHING, root, ids.index(one.finding.id))
    location = _location(one.comment, root)
    why = {"kind": "inSource", "justification": "a `# trainperf: ignore` comment"}
    return {**result, "suppressions": [{**why, "location": location}]}


def _stand_in(diagnosis: Diagnosis) -> tuple[Site, ...]:
    """A place for what has none, for code scanning refuses such results: loop, or script."""
    if diagnosis.loop is not None and diagnosis.loop.where is not None:
        return (diagnosis.loop.where,)
    if diagnosis.script.endswith(".py") and not diagnosis.script.startswith("-m "):
        return (Site(os.path.join(diagnosis.cwd, diagnosis.script), 1),)
    return ()


def _location(site: Site, root: str) -> Json:
    physical: Json = {"artifactLocation": _artifact(site.file, root)}
    location: Json = {"physicalLocation": physical}
    if is_notebook(site.file):  # lines of a cell are no lines of its file
        location["message"] = {"text": spot(site.file, site.line)}
    else:
        physical["region"] = _region(site)
    return location


def _artifact(file: str, root: str) -> Json:
    """Where a file is: relative to `root`, the repository's, where it lies beneath it."""
    path = inside(file, root)
    if path is None:
        return {"uri": f"file://{_encoded(os.path.abspath(file))}"}
    return {"uri": _encoded(path), "uriBaseId": ROOT}


def _encoded(path: str) -> str:
    """The bytes of a name as it is on disk, percent-encoded: lone surrogates stand for bytes."""
    try:
        name = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        name = path.encode("utf-8", "replace")
    return quote(name, safe="/")


def _message(text: str) -> Json:
    """A message; no name in it can become a link, which is "[text](target)"."""
    return {"text": plain(text).replace("](", "] (")}


def _region(site: Site) -> Json:
    region = {"startLine": max(1, site.line)}
    if site.exact and site.line > 0:
        region |= {"startColumn": site.col + 1}
        region |= {"endLine": site.end_line, "endColumn": site.end_col + 1}
    return region


def _fingerprint(finding: Finding, root: str) -> str:
    """Tell findings apart from run to run: by id, file and function, not by the line."""
    site = finding.where[0] if finding.where else Site("", 0)
    file = inside(site.file, root) or os.path.basename(site.file)
    text = "\0".join((finding.id, file, site.function))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _properties(finding: Finding, trial: Trial | None) -> Json:
    found: Json = {
        "category": finding.category,
        "equivalence": finding.equivalence,
        "bound": finding.bound,
        "boundBasis": plain(finding.bound_basis) or None,
    }
    if trial is not None:
        found |= {"outcome": trial.outcome, "reason": plain(trial.reason) or None}
        found |= {"speedup": trial.speedup, "low": trial.low, "high": trial.high}
        found |= {} if trial.speedup is None else {"basis": trial.basis}
    return {name: value for name, value in found.items() if value is not None}


def _invocation(diagnosis: Diagnosis, judgement: Judgement) -> Json:
    """How the script was run, how that ended, and what could not be measured."""
    return {
        "executionSuccessful": diagnosis.ending.complete,
        "exitCodeDescription": str(diagnosis.ending),
        "commandLine": plain(shlex.join(diagnosis.command)),
        "toolExecutionNotifications": [
            {"level": level, "message": _message(text)}
            for level, text in _notifications(diagnosis, judgement)
        ],
    }


def _notifications(diagnosis: Diagnosis, judgement: Judgement) -> list[tuple[str, str]]:
    found = [("error", one) for one in judgement.problems]
    if early := step.ended_early(diagnosis):
        found.append(("error", early))
    found.append(("note", diagnosis.verdict.text))
    not_measured = (f"not measured: {one.what}: {one.reason}" for one in diagnosis.not_measured)
    ignored = ignoring.said(diagnosis.ignored, diagnosis.cwd)
    others = (*not_measured, *diagnosis.notes, ignored)
    return found + [("note", one) for one in others if one]
