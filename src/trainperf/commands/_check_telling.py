"""The words and files of `trainperf check` when it has run the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from trainperf import compare
from trainperf.check import answering, judging
from trainperf.check.running import Runs
from trainperf.check.values import Baseline, Checked, Criteria
from trainperf.commands import outputs, run_folders
from trainperf.commands._shared import console
from trainperf.commands.compare import render
from trainperf.commands.outputs import Output
from trainperf.commands.streams import tell
from trainperf.model import Check, Compared, Diagnosis
from trainperf.settings import Settings

PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Question:
    """The question to the runs: against which baseline, by which criteria."""

    saved: Baseline
    against: Compared
    wanted: Criteria
    strict: bool
    update: bool


def answer(question: Question, runs: Runs, settings: Settings, asked: Sequence[Output]) -> Check:
    """Print what is to be known and the answer, which stands last; return it."""
    saved = question.saved
    checked = answering.answer(saved, runs.diagnosis, runs.repeats, question.wanted)
    comparison = compare.compare(saved, runs.diagnosis)
    err = outputs.takes_stdout(asked)
    if checked.outcome == "passed":
        for row in comparison.tables[compare.WORDS]:
            was, now = row.before or "not known", row.after or "not known"
            tell(f"note: {row.name}: {was} before, {now} now", err=err)
    else:
        render(comparison, console(stderr=err, color=settings.color))
        click.echo(err=err)
    status = PASSED if question.update else _status(checked, question.strict)
    check = answering.reported(checked, question.against, question.wanted, question.strict, status)
    for told in _besides(check):
        tell(f"note: {told}", err=err)
    tell(check.text, err=err)
    return check


def write(
    diagnosis: Diagnosis, check: Check | None, settings: Settings, asked: Sequence[Output]
) -> None:
    """Write the report where it was asked for, the answer first among its notes."""
    problems: tuple[str, ...] = ()
    if check is not None:
        told = (check.text, *_besides(check), *diagnosis.notes)
        diagnosis = replace(diagnosis, notes=told, check=check)
        problems = _problems(check)
    run_folders.write_outputs(diagnosis, settings)
    reports = [one for one in asked if one != outputs.Output("terminal")]
    # what fails the check is among the problems; findings of the baseline do not
    mild = replace(settings, fail_on="none")
    outputs.write(
        diagnosis,
        reports,
        mild,
        console,
        problems=problems,
        answer="" if check is None else check.text,
        undecided=check is not None and check.outcome == "undecided",
    )


def save(runs: Runs, path: Path, asked: Sequence[Output]) -> None:
    """Save the runs as a baseline, and say what it is worth."""
    answering.save(runs.diagnosis, runs.repeats, path)
    many = len(runs.repeats)
    for told in answering.shortcomings(runs.repeats):
        tell(f"note: {told}", err=outputs.takes_stdout(asked))
    tell(
        f"saved {path}: {runs.diagnosis.script}, {many} run{'s' if many > 1 else ''}, "
        f"noise ±{judging.noise(runs.repeats) * 100:.1f} %",
        err=outputs.takes_stdout(asked),
    )


def _problems(check: Check) -> tuple[str, ...]:
    """The reasons that fail the build: those of the check and, if strict, of its doubt."""
    if check.outcome == "undecided" and check.exit_status == FAILED:
        return (check.text,)
    return tuple(one.text for one in check.reasons if one.outcome == "failed")


def _besides(check: Check) -> list[str]:
    """The reasons that the last line has no room for: failures, then the rest."""
    told = sorted(check.reasons, key=lambda one: one.outcome != "failed")
    return [one.text for one in told if one.text not in check.text]


def _status(checked: Checked, strict: bool) -> int:
    """1 for a failure, and for what is undecided where that is not good enough."""
    if checked.outcome == "failed" or (strict and checked.outcome == "undecided"):
        return FAILED
    return PASSED
