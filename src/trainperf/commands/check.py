"""`trainperf check --against REV -- SCRIPT`, and `trainperf check --baseline FILE SCRIPT`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from trainperf.commands import outputs
from trainperf.commands._shared import (
    ScriptCommand,
    Share,
    check_whole_job,
    console,
    options,
    read_settings,
    tell,
)
from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.check.answering import Baseline
    from trainperf.check.running import Runs
    from trainperf.commands.session import Target
    from trainperf.compare import Comparison
    from trainperf.model import Check, Diagnosis, Machine
    from trainperf.settings import Settings

NOT_TIMED = 2
SKIP, STOP = 125, 128
"""What `git bisect run` takes for "cannot be told", and for "end this"."""
RUN_MEASURE_S = 6.0
RUN_EXTRA_S = 4.5
"""Several runs share the budget of a check, and are compared with each other: none of them
takes longer because its own times vary."""


@click.command(
    cls=ScriptCommand,
    short_help="Say whether a script trains as fast as a revision, or a saved baseline.",
)
@click.option("--against", metavar="REV", flag_value="", is_flag=False, help="Check the working "
              "tree against a git revision [default: where the branch began].")  # fmt: skip
@click.option("--baseline", metavar="FILE", help="Check against this baseline, or any saved "
              "report.")  # fmt: skip
@click.option(
    "--save-baseline", metavar="FILE", help="Run three to five times and save a baseline."
)
@click.option("--max-regression", "most", type=Share(), default="5%", show_default=True,
              metavar="SHARE", help="How much slower a step may be.")  # fmt: skip
@click.option("--min-utilization", "least", type=Share(), metavar="SHARE",
              help="Fail on an accelerator utilisation under this, such as 0.8.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Fail as well where noise or the machine leave it "
              "undecided.")  # fmt: skip
@options("module", "python", "budget", "stall", "output_dir", "json", "output_format", "ignore")
@options("quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]…")
def check(
    command: tuple[str, ...],
    module: str | None,
    against: str | None,
    baseline: str | None,
    save_baseline: str | None,
    most: float,
    least: float | None,
    strict: bool,
    **flags: Any,
) -> None:
    """Say whether a script trains as fast as it did; for CI.

    \b
    trainperf check --against origin/main -- train.py --epochs 3
    git bisect run trainperf check --against v1.0 -- train.py
    trainperf check --save-baseline baseline.json train.py --epochs 3
    trainperf check --baseline baseline.json train.py --epochs 3

    Against a revision, the script runs as it is and as it was there, in turns. Against a baseline
    it runs once; where it seems slower, up to five times: what fails the check was there in every
    run. No fix is tried, no file changed. Options of trainperf stand before the script.

    Exit status: 0 passed, or it cannot tell and no `--strict`; 1 failed; 2 wrong usage, no
    baseline that can be read, a machine that cannot be compared, or no step timed; 3 the
    script failed; 130 interrupted.
    """
    from trainperf.check import running
    from trainperf.commands import session

    settings = replace(read_settings(flags), trials=False)
    if against is not None and (baseline or save_baseline or least):
        raise TrainperfError(
            "--against goes by the time of a step alone, and needs no baseline",
            hint="trainperf check --against REV --max-regression 5% -- train.py",
        )
    if against is None and (baseline is None) == (save_baseline is None):
        raise TrainperfError(
            "which baseline?" if baseline is None else "one of --baseline and --save-baseline",
            hint="trainperf check --baseline FILE train.py checks against one, "
            "trainperf check --save-baseline FILE train.py makes one; --against REV needs none; "
            "options behind the script are its own",
        )
    target = session.target(module, command, Path.cwd(), "check --against REV", settings.python)
    check_whole_job(target.command, "check")
    made = None if save_baseline is None else Path(save_baseline)
    inputs = [*command, *([baseline] if baseline else [])]
    outputs.check_outputs(settings, inputs, ("the baseline", made))
    if against is not None:
        _against(target, settings, against, most, strict)
    if made is not None:
        runs = _runs(target, settings, running.BASELINE_RUNS, running.agree)
        _write(runs.diagnosis, None, settings)
        _save(runs, made, outputs.takes_stdout(settings))
    else:
        _against_file(target, settings, Path(baseline or ""), most, least, strict)


def _against_file(
    target: Target, settings: Settings, path: Path, most: float, least: float | None, strict: bool
) -> NoReturn:
    """Check against a baseline, or any saved report, and exit."""
    from trainperf.check import answering

    saved = answering.load(path, target.label)
    limits = answering.Limits(most, least, strict)
    here = replace(saved.evidence, machine=inspected(target.cwd))
    _compared(saved, replace(saved, evidence=here), path, target)
    runs = _runs(target, settings, 1, lambda made: answering.settled(saved, made, limits))
    comparison = _compared(saved, runs.diagnosis, path, target)
    told = answering.answer(saved, answering.compared(saved, path), runs, limits)
    _tell(told, comparison, outputs.takes_stdout(settings))
    _write(runs.diagnosis, told, settings)
    sys.exit(told.exit_status)


def inspected(folder: Path) -> Machine:
    """The machine as it is now, before anything is run on it."""
    from trainperf.machine import inspect_machine

    return inspect_machine(directory=folder)


def _against(target: Target, settings: Settings, rev: str, most: float, strict: bool) -> NoReturn:
    """Check the working tree against a revision, both in one job, and exit.

    In `git bisect run` what cannot be told is skipped, and an error of ours ends it.
    """
    from trainperf.changes import Repository
    from trainperf.commands import session
    from trainperf.proof import compare_with

    repository = Repository.around(str(target.cwd))
    skip, stop = (SKIP, STOP) if repository.bisecting() else (0, None)
    pipeline = partial(compare_with, rev=rev, most=most, strict=strict)
    try:
        diagnosis, _, unsaved = session.run(
            target, settings, console(stderr=True), pipeline=pipeline
        )
    except TrainperfError as error:
        if stop is not None and error.exit_code:
            error.exit_code = stop
        raise
    if (told := diagnosis.check) is None:
        _unchecked(diagnosis, settings, skip)
    _write(diagnosis, told, settings)
    tell(told.text, err=outputs.takes_stdout(settings))
    if unsaved is not None:
        raise unsaved
    sys.exit(skip if skip and told.outcome == "undecided" else told.exit_status)


def _unchecked(diagnosis: Diagnosis, settings: Settings, status: int = 0) -> NoReturn:
    """Show a run that says nothing of the script's speed, and exit."""
    from trainperf.report.sections import step

    outputs.write_outputs(diagnosis, settings)
    outputs.write(diagnosis, outputs.parse(settings.output_format), settings)
    why = step.PARTIAL.get(diagnosis.ending, "No step could be timed")
    told = f"nothing was checked: {why[0].lower()}{why[1:]}"
    click.echo(told, err=outputs.takes_stdout(settings))
    sys.exit(status or outputs.exit_status(diagnosis) or NOT_TIMED)


def _runs(
    target: Target, settings: Settings, at_least: int, settled: Callable[[Runs], bool]
) -> Runs:
    from trainperf.check import running
    from trainperf.commands import session

    cores = inspected(target.cwd).cores
    until = time.monotonic() + settings.budget_s
    many = 0

    def observe() -> Diagnosis:
        nonlocal many
        many += 1
        left = replace(
            settings,
            budget_s=max(1.0, until - time.monotonic()),
            measure_s=settings.measure_s or RUN_MEASURE_S,
            extra_s=settings.extra_s or RUN_EXTRA_S,
            trace=None,
        )
        named = f"{target.label}, run {many}"
        return session.run(target, left, console(stderr=True), named, many == 1)[0]

    runs = running.run(observe, lambda: running.speed(cores), until, at_least, settled)
    if runs.ended is not None:
        _unchecked(runs.ended, settings)
    return runs


def _compared(saved: Baseline, now: Diagnosis, path: Path, target: Target) -> Comparison:
    """The differences from a baseline; refused where its machine says nothing about this one."""
    from trainperf import compare

    comparison = compare.compare(saved, now)
    if comparison.refusals:
        raise TrainperfError(
            f"{path} cannot be compared with this run: {'; '.join(comparison.refusals)}",
            hint="save a baseline here and now: "
            f"trainperf check --save-baseline {path} {target.label}",
        )
    return comparison


# ---------------------------------------------------------------------- words and files


def _tell(told: Check, comparison: Comparison, err: bool) -> None:
    """Print what is to be known and the answer, which stands last."""
    from trainperf import compare
    from trainperf.commands.compare import render

    if told.outcome == "passed":
        for row in comparison.tables[compare.WORDS]:
            was, now = row.before or "not known", row.after or "not known"
            tell(f"note: {row.name}: {was} before, {now} now", err=err)
    else:
        render(comparison, console(stderr=err))
        click.echo(err=err)
    for text in _besides(told):
        tell(f"note: {text}", err=err)
    tell(told.text, err=err)


def _write(diagnosis: Diagnosis, told: Check | None, settings: Settings) -> None:
    """Write the report where it was asked for, the answer first among its notes.

    Findings do not fail a check: the baseline had them.
    """
    from trainperf.report.level import Judgement

    judgement = Judgement()
    if told is not None:
        notes = (told.text, *_besides(told), *diagnosis.notes)
        diagnosis = replace(diagnosis, notes=notes, check=told)
        problems = tuple(reason.text for reason in told.reasons if reason.outcome == "failed")
        undecided = told.outcome == "undecided"
        if undecided and told.exit_status:
            problems = (told.text,)
        judgement = Judgement("none", problems, "" if problems else told.text, undecided)
    outputs.write_outputs(diagnosis, settings)
    asked = outputs.parse(settings.output_format)
    files = [output for output in asked if output != outputs.Output("terminal")]
    outputs.write(diagnosis, files, settings, judgement=judgement)


def _save(runs: Runs, path: Path, err: bool) -> None:
    """Save the runs as a baseline, and say what it is worth."""
    from trainperf.check import answering, judging

    answering.save(runs.diagnosis, runs.repeats, path)
    for text in answering.shortcomings(runs.repeats):
        tell(f"note: {text}", err=err)
    many = len(runs.repeats)
    tell(
        f"saved {path}: {runs.diagnosis.script}, {many} run{'s' if many > 1 else ''}, "
        f"noise ±{judging.noise(runs.repeats) * 100:.1f} %",
        err=err,
    )


def _besides(told: Check) -> list[str]:
    """The reasons that the last line has no room for: failures, then the rest."""
    reasons = sorted(told.reasons, key=lambda reason: reason.outcome != "failed")
    return [reason.text for reason in reasons if reason.text not in told.text]
