"""`trainperf check --against REV -- SCRIPT`, and `trainperf check --baseline FILE SCRIPT`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from trainperf.commands._arguments import ScriptCommand, Share, options
from trainperf.commands._shared import (
    check_outputs,
    check_whole_job,
    console,
    exit_status,
    given,
    print_report,
    read_settings,
)
from trainperf.commands.streams import tell
from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.check.running import Runs
    from trainperf.check.values import Baseline
    from trainperf.commands.outputs import Output
    from trainperf.commands.session import Target
    from trainperf.diagnose import Request
    from trainperf.model import Diagnosis, Event, Machine, Recording
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
@click.option("--update", is_flag=True, help="Save what was measured as the new --baseline, "
              "whatever it says.")  # fmt: skip
@click.option("--max-regression", "most", type=Share(), default="5%", show_default=True,
              metavar="SHARE", help="How much slower a step may be.")  # fmt: skip
@click.option("--min-utilization", "least", type=Share(), metavar="SHARE",
              help="Fail on an accelerator utilisation under this, such as 0.8.")  # fmt: skip
@click.option("--fail-on", metavar="WHAT", help="Fail on any new `finding`, or on a new one worth "
              "at least e.g. `1.2` times.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Fail as well where noise or the machine leave it "
              "undecided.")  # fmt: skip
@options(
    "module", "python", "budget", "steps", "stall", "output_dir", "json", "output_format", "ignore"
)
@options("quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]…")
def check(
    command: tuple[str, ...],
    module: str | None,
    against: str | None,
    baseline: str | None,
    save_baseline: str | None,
    update: bool,
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
    from trainperf.check import answering, running, values
    from trainperf.commands import _check_telling as telling
    from trainperf.commands import outputs, session

    settings = replace(read_settings(given(flags)), trials=False)
    asked = outputs.parse(settings.output_format)
    if against is not None and (baseline or save_baseline or update or least or flags["fail_on"]):
        raise TrainperfError(
            "--against goes by the time of a step alone, and needs no baseline",
            hint="trainperf check --against REV --max-regression 5% -- train.py",
        )
    if against is None:
        _one_of(baseline, save_baseline, update, command)
    target = session.target(module, command, Path.cwd(), "check --against REV", settings.python)
    check_whole_job(target.command, "check")
    if against is not None:
        check_outputs(settings)
        _against(target, settings, against, most, strict, asked)
    path = Path(save_baseline or baseline or "")
    _check_files(asked, path, settings.json, bool(save_baseline) or update)
    wanted = values.Criteria(most, least, settings.fail_on)
    new = bool(save_baseline) or (update and not path.exists())
    saved = None if new else answering.load(path, target.label)
    if saved is None:
        runs = _runs(target, settings, running.BASELINE_RUNS, running.agree)
        telling.write(runs.diagnosis, None, settings, asked)
        telling.save(runs, path, asked)
        return
    question = telling.Question(saved, answering.compared(saved, path), wanted, strict, update)
    if update:
        runs = _runs(target, settings, running.BASELINE_RUNS, running.agree)
        other = _refusals(saved, runs.diagnosis)
        checked = None if other else telling.answer(question, runs, settings, asked)
        telling.write(runs.diagnosis, checked, settings, asked)
        telling.save(runs, path, asked)
        return
    here = replace(saved.evidence, machine=inspected(target.cwd))
    _refuse(saved, replace(saved, evidence=here), path, target)
    runs = _runs(target, settings, 1, lambda made: answering.settled(saved, made, wanted))
    _refuse(saved, runs.diagnosis, path, target)
    checked = telling.answer(question, runs, settings, asked)
    telling.write(runs.diagnosis, checked, settings, asked)
    sys.exit(checked.exit_status)


def _check_files(asked: tuple[Output, ...], path: Path, json: Path | None, saves: bool) -> None:
    """Refuse files that are one, or that cannot be written: before a run that takes minutes."""
    from trainperf.commands import outputs

    named = (("the baseline", path), ("--json", json))
    outputs.distinct([*named, *((one.format, one.file) for one in asked)])
    written = (path if saves else None, json)
    outputs.check([*asked, *(outputs.Output("json", one) for one in written if one)])


def inspected(folder: Path) -> Machine:
    """The machine as it is now, before anything is run on it."""
    from trainperf.machine import inspect_machine

    return inspect_machine(directory=folder)


def _one_of(
    baseline: str | None, save_baseline: str | None, update: bool, command: tuple[str, ...]
) -> None:
    """Refuse options that say nothing together."""
    names = {word.partition("=")[0] for word in command[1:]}
    late = sorted(names & {"--baseline", "--save-baseline"})
    if baseline is None and save_baseline is None and late:
        raise TrainperfError(
            f"{late[0]} stands behind the script, so it is the script's own",
            hint=f"options of trainperf stand before it: trainperf check {late[0]} FILE "
            f"{command[0]}",
        )
    if (baseline is None) == (save_baseline is None):
        raise TrainperfError(
            "which baseline?" if baseline is None else "one of --baseline and --save-baseline",
            hint="trainperf check --baseline FILE train.py checks against one, "
            "trainperf check --save-baseline FILE train.py makes one; --against REV needs none",
        )
    if update and baseline is None:
        raise TrainperfError("--update of what?", hint="name the file with --baseline FILE")


def _against(
    target: Target, settings: Settings, rev: str, most: float, strict: bool, asked: Sequence[Output]
) -> NoReturn:
    """Check the working tree against a revision, both in one job, and exit.

    In `git bisect run` what cannot be told is skipped, and an error of ours ends it.
    """
    from trainperf.changes import Repository
    from trainperf.commands import _check_telling as telling
    from trainperf.commands import outputs, session
    from trainperf.proof import compare_with

    def pipeline(
        request: Request, on_event: Callable[[Event], None]
    ) -> tuple[Diagnosis, Recording]:
        return compare_with(request, rev, most, strict, on_event)

    repository = Repository.around(str(target.cwd))
    skip, stop = (SKIP, STOP) if repository.bisecting() else (None, None)
    try:
        diagnosis, _, unsaved = session.run(
            target, settings, console(stderr=True), pipeline=pipeline
        )
    except TrainperfError as error:
        if stop is not None and error.exit_code:
            error.exit_code = stop
        raise
    err = outputs.takes_stdout(asked)
    check = diagnosis.check
    if check is None:
        telling.write(diagnosis, None, settings, asked)
        click.echo(f"nothing was checked: {_ended(diagnosis)}", err=err)
        sys.exit(skip or exit_status(diagnosis, replace(settings, fail_on="none")) or NOT_TIMED)
    telling.write(diagnosis, check, settings, asked)
    tell(check.text, err=err)
    if unsaved is not None:
        raise unsaved
    sys.exit(skip if skip and check.outcome == "undecided" else check.exit_status)


def _runs(
    target: Target,
    settings: Settings,
    at_least: int,
    settled: Callable[[Runs], bool],
) -> Runs:
    from trainperf.check import running
    from trainperf.commands import outputs, run_folders, session

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

    means = running.Means(observe, lambda: running.speed(cores), until)
    runs = running.run(means, at_least, settled)
    if runs.ended is not None:
        run_folders.write_outputs(runs.ended, settings)
        print_report(runs.ended, settings)
        click.echo(
            f"nothing was checked: {_ended(runs.ended)}",
            err=outputs.takes_stdout(outputs.parse(settings.output_format)),
        )
        status = exit_status(runs.ended, replace(settings, fail_on="none"))
        sys.exit(status or NOT_TIMED)
    return runs


def _ended(diagnosis: Diagnosis) -> str:
    """Why a run says nothing of the script's speed."""
    from trainperf.model import Ending

    told = {
        Ending.FAILED: "the script failed",
        Ending.SIGNALLED: "the script was killed",
        Ending.STALLED: "the script stood still",
        Ending.INTERRUPTED: "interrupted",
    }
    return told.get(diagnosis.ending, "no step could be timed")


def _refuse(saved: Baseline, now: Diagnosis, path: Path, target: Target) -> None:
    """Refuse to compare with a baseline of a machine that says nothing about this one."""
    refused = _refusals(saved, now)
    if refused:
        raise TrainperfError(
            f"{path} cannot be compared with this run: {'; '.join(refused)}",
            hint="save a baseline here and now: "
            f"trainperf check --save-baseline {path} {target.label}",
        )


def _refusals(saved: Baseline, now: Diagnosis) -> tuple[str, ...]:
    from trainperf import compare

    return compare.compare(saved, now).refusals
