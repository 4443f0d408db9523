"""The report as Markdown: for the summary of a job, or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainperf.model import Diagnosis, Finding, Outcome, Trial
from trainperf.model import words as units
from trainperf.report import ignored as ignoring
from trainperf.report.document import CHANGES, STEP, Page, Written
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement, of_what
from trainperf.report.plain import places
from trainperf.report.sections import (
    closing,
    experiment,
    findings,
    step,
    trials,
)
from trainperf.report.sections.findings import Pair, of_this_experiment
from trainperf.report.sections.money import costs
from trainperf.report.whole import document, sections, written
from trainperf.reporters.markdown.blocks import blocks
from trainperf.reporters.markdown.marked import (
    code,
    escaped,
    fenced,
    folded,
    inline,
    table,
)

COMMENT_LIMIT = 65_536
"""The longest comment that GitHub takes, in characters; here bytes, which are never fewer."""

SUMMARY_LIMIT = 1024 * 1024
"""The longest summary of a step that GitHub shows, in bytes."""

_NONE = "not measured"

HEAD = ("outside", "lines")
"""Sections on where the time goes that stand above."""


def render(
    diagnosis: Diagnosis,
    *,
    judgement: Judgement = ASKED_FOR_NOTHING,
    root: str = "",
    limit: int = COMMENT_LIMIT,
) -> str:
    """Return the report in at most `limit` bytes; places are relative to `root`, or the run's.

    Where it would be longer, the patch is left out, then the details, and that is said.
    """
    diagnosis = replace(diagnosis, cwd=root or diagnosis.cwd)
    head = list(_head(diagnosis, judgement))
    details, patch, end = list(_details(diagnosis)), _patch(diagnosis), _end(diagnosis)
    left_out = "_Left out to keep this short: {}. `trainperf show` prints the whole report._"
    for texts in (
        [*head, *details, *patch, end],
        [*head, *details, left_out.format("the patch"), end],
        [*head, left_out.format("the details and the patch"), end],
    ):
        if len(text := _joined(texts)) <= limit:
            return text.decode()
    first = _joined([*head[:2], left_out.format("all but the verdict"), end])
    return first[: max(0, limit)].decode("utf-8", "ignore")


def _joined(blocks: list[str]) -> bytes:
    return ("\n\n".join(one for one in blocks if one) + "\n").encode("utf-8", "replace")


def _head(diagnosis: Diagnosis, judgement: Judgement) -> Iterator[str]:
    """The verdict, the times and what to change."""
    yield f"## trainperf: {code(diagnosis.script)}"
    yield f"**{inline(diagnosis.verdict.text)}**"
    yield inline(step.ended_early(diagnosis))
    yield inline(judgement.answer)
    if judgement.problems:
        yield "**Why the check fails**"
        yield "\n".join(f"- {inline(one)}" for one in judgement.problems)
    yield blocks([written("proofs", diagnosis)])
    yield _times(diagnosis)
    yield blocks([written("lines", diagnosis, short=True)])
    yield blocks([written("outside", diagnosis)])
    if diagnosis.cost is not None:
        yield inline(f"Cost: {costs(diagnosis.cost)}")
    if found := of_this_experiment(diagnosis):
        yield "### What to change"
        yield _findings(found, diagnosis, judgement)
    if tried := list(_tried_besides(diagnosis)):
        yield "### Tried"
        yield table(("Fix", "At most", "Measured (95 % interval)", "Outcome"), tried, right=(1, 2))
    yield blocks([written("experiment", diagnosis, short=True)])
    yield inline(closing.answer(diagnosis)[0])
    if diagnosis.practices:
        yield "### Time to accuracy (not ranked, not priced)"
        rows = [_practice(one, diagnosis.cwd) for one in diagnosis.practices]
        yield "\n".join(f"- {row}" for row in rows)
    if ignored := ignoring.said(diagnosis.ignored, diagnosis.cwd):
        yield inline(ignored)


def _times(diagnosis: Diagnosis) -> str:
    real, resident, alone = diagnosis.step_s, diagnosis.resident_s, diagnosis.input_s
    noise = "" if diagnosis.noise is None else f" ± {units.share(diagnosis.noise)}"
    cells = (
        _NONE if real is None else units.seconds(real) + noise,
        _NONE if resident is None else units.seconds(resident),
        _NONE if alone is None else units.seconds(alone),
        ", ".join(step.rates(diagnosis)) or _NONE,
    )
    header = ("A step as it is", "with free input", "its input alone", "Throughput")
    return table(header, [cells], right=range(4))


def _findings(found: list[Pair], diagnosis: Diagnosis, judgement: Judgement) -> str:
    rows = [
        _row(one, trial, diagnosis, judgement.level(one, diagnosis) == "error")
        for one, trial in found
    ]
    header = ("Finding", "At most", "Measured (95 % interval)", "Outcome", "Where")
    return table(header, rows, right=(1, 2))


def _row(
    finding: Finding, trial: Trial | None, diagnosis: Diagnosis, fails: bool
) -> tuple[str, ...]:
    measured, outcome = _came_of(trial, diagnosis)
    return (
        f"{inline(finding.title)} ({code(finding.id)}){' **fails the check**' if fails else ''}",
        "not known" if finding.bound is None else units.bound(finding.bound),
        measured,
        outcome,
        code(places(finding.where, diagnosis.cwd, most=1)),
    )


def _tried_besides(diagnosis: Diagnosis) -> Iterator[tuple[str, ...]]:
    """Rows for what was tried although no finding names it: one that trying disproved."""
    found = {one.id for one in (*diagnosis.findings, *diagnosis.practices)}
    found |= experiment.apart(diagnosis)
    for trial in diagnosis.trials:
        if trial.fix in found or trial.outcome is Outcome.NOT_TRIED:
            continue
        measured, outcome = _came_of(trial, diagnosis)
        if trial.speedup is None and trial.why:
            outcome += f": {inline(trial.why)}"
        bound = "not known" if trial.bound is None else units.bound(trial.bound)
        yield code(trial.name), bound, measured, outcome


def _came_of(trial: Trial | None, diagnosis: Diagnosis) -> tuple[str, str]:
    """The figures of a trial, and what it decided."""
    if trial is None:
        return _NONE, "not tried"
    outcome = escaped(trials.heading(trial, diagnosis))
    if trial.speedup is None:
        return _NONE, outcome
    figure = units.measured(trial.speedup, trial.low, trial.high)
    return figure + of_what(trial, diagnosis), outcome


def _practice(finding: Finding, cwd: str) -> str:
    where = places(finding.where, cwd, most=1)
    at = f" at {code(where)}" if where else ""
    return f"{inline(finding.title)} ({code(finding.id)}){at}"


def _details(diagnosis: Diagnosis) -> Iterator[str]:
    apart = experiment.apart(diagnosis)
    told_of = (one for one in diagnosis.findings if one.id not in apart)
    for finding in (*told_of, *diagnosis.practices):
        page = Page()
        findings.alone(finding, diagnosis, page)
        about = blocks([Written(finding.id, tuple(page.blocks))])
        yield folded(f"<code>{escaped(finding.id)}</code>: why and how", about)
    whole = document(diagnosis)
    names = [one.name for one in sections() if STEP <= one.place < CHANGES]
    apart_in = [one for one in whole.sections if one.name in names and one.name not in HEAD]
    if apart_in and diagnosis.step_s is not None:
        yield folded("Where the time goes", blocks(apart_in))
    for name in ("not_measured", "notes"):
        if (found := whole.section(name)) is not None:
            yield folded(found.heading, blocks([replace(found, blocks=found.blocks[1:])]))
    if output := step.output_of(diagnosis):
        yield folded("Last output of the script", fenced(output, "text"))


def _patch(diagnosis: Diagnosis) -> list[str]:
    patch = diagnosis.patch
    if patch is None or not (patch.diff or patch.environment or patch.arguments):
        return []
    parts = [fenced(patch.shown, "diff")] if patch.diff else []
    if patch.environment:
        parts.append("Set before the script starts:")
        parts.append(fenced(closing.exports(patch), "bash"))
    if patch.arguments:
        parts.append("Run the script as:")
        parts.append(fenced(closing.command_line(diagnosis), "bash"))
    edits = units.count(closing.edits_in(patch.shown), "edit")
    name = f"The patch ({edits})" if patch.diff else "The change"
    return [folded(name, "\n\n".join(parts))]


def _end(diagnosis: Diagnosis) -> str:
    machine = diagnosis.evidence.machine
    instance = "" if machine.instance is None else machine.instance.name
    device = step.device_line(diagnosis.evidence.device, machine)
    parts = (instance, device, step.framework_line(diagnosis.evidence.framework))
    ran_on = "; ".join((*(one for one in parts if one), f"Python {machine.python}"))
    ran = f"trainperf {diagnosis.trainperf_version}, {units.duration(diagnosis.seconds)}"
    return f"<sub>{escaped(ran_on)}. {escaped(ran)}, {escaped(diagnosis.created)}.</sub>"
