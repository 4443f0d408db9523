"""The findings as JUnit XML, which every CI server reads: a case that failed for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from trainperf.model import Diagnosis, Finding, Site
from trainperf.recording.cells import is_notebook
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement
from trainperf.report.plain import dedented, inside, one_line, plain
from trainperf.report.sections import closing, step
from trainperf.report.sections.findings import gives

# What XML 1.0 has no way to write, https://www.w3.org/TR/xml/#charsets.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Outcome = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class _Case:
    name: str
    outcome: Outcome
    message: str = ""
    text: str = ""
    kind: str = ""
    site: Site | None = None


def render(
    diagnosis: Diagnosis, *, judgement: Judgement = ASKED_FOR_NOTHING, root: str = ""
) -> str:
    """Return one suite: what fails the check fails, every other finding is skipped.

    A run that ended badly, or without a step that was timed, is an error. Where nothing
    was found there is one case that passed. Files are relative to `root`.
    """
    root = root or diagnosis.cwd
    cases = list(_cases(diagnosis, judgement))
    counts = {
        "tests": len(cases),
        "failures": sum(one.outcome == "failure" for one in cases),
        "errors": sum(one.outcome == "error" for one in cases),
        "skipped": sum(one.outcome == "skipped" for one in cases),
    }
    whole = {name: str(many) for name, many in counts.items()}
    whole |= {"name": _valid(f"trainperf {diagnosis.script}"), "time": f"{diagnosis.seconds:.3f}"}
    suites = ElementTree.Element("testsuites", whole)
    more = {"timestamp": diagnosis.created, "hostname": diagnosis.evidence.machine.hostname}
    suite = ElementTree.SubElement(
        suites, "testsuite", whole | {name: _valid(value) for name, value in more.items()}
    )
    for case in cases:
        _write(case, suite, diagnosis, root)
    out = ElementTree.SubElement(suite, "system-out")
    out.text = _valid(plain(f"{diagnosis.verdict.text}\n{closing.answer(diagnosis)[0]}".strip()))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, "unicode")}'


def _cases(diagnosis: Diagnosis, judgement: Judgement) -> Iterator[_Case]:
    for problem in judgement.problems:
        yield _Case("check", "failure", one_line(problem), problem, "regression")
    if judgement.answer:
        outcome: Outcome = "skipped" if judgement.undecided else "passed"
        yield _Case("check", outcome, judgement.answer, judgement.answer)
    early = step.ended_early(diagnosis)
    if early:
        yield _Case("run", "error", early, step.output_of(diagnosis), str(diagnosis.ending))
    elif diagnosis.step_s is None:
        yield _Case("run", "error", "no step was timed", diagnosis.verdict.text, "not measured")
    for finding in diagnosis.findings:
        fails = judgement.level(finding, diagnosis) == "error"
        yield _finding(finding, "failure" if fails else "skipped", gives(finding, diagnosis))
    for ignored in diagnosis.ignored:
        yield _finding(ignored.finding, "skipped", "ignored in the source")
    found = (diagnosis.findings, diagnosis.ignored, judgement.problems)
    if not any(found) and not early and diagnosis.step_s is not None:
        yield _Case("healthy" if diagnosis.verdict.healthy else "nothing found", "passed")


def _finding(finding: Finding, outcome: Outcome, worth: str) -> _Case:
    text = "\n\n".join(
        one for one in (finding.text, finding.advice, dedented(finding.snippet)) if one
    )
    site = next(iter(finding.where), None)
    message = f"{finding.title}: {worth}"
    return _Case(finding.id, outcome, message, text, finding.category, site)


def _write(case: _Case, suite: ElementTree.Element, diagnosis: Diagnosis, root: str) -> None:
    named = {"name": _valid(case.name), "classname": _valid(f"trainperf.{diagnosis.script}")}
    if case.site is not None:
        path = inside(case.site.file, root) or case.site.file
        named |= {"file": _valid(path)}
        if not is_notebook(path):  # lines of a cell are no lines of its file
            named |= {"line": str(max(1, case.site.line))}
    written = ElementTree.SubElement(suite, "testcase", named | {"time": "0"})
    if case.outcome == "passed":
        return
    told_ = {"message": _valid(one_line(case.message))}
    if case.outcome != "skipped":
        told_["type"] = _valid(case.kind)
    ElementTree.SubElement(written, case.outcome, told_).text = _valid(plain(case.text))


def _valid(text: str) -> str:
    """Return `text` in the characters that XML has."""
    return _NOT_XML.sub("", text.encode("utf-8", "replace").decode())
