"""`trainperf doctor`: the examination of the machine, and the self-test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainperf.commands import outputs
from trainperf.machine.doctor.checks import Check, Checkup, Status

_STYLES: dict[Status, str] = {
    "ok": "green",
    "warning": "yellow",
    "problem": "bold red",
    "unknown": "dim",
}
"""How a check is shown; its word stands for itself where there is no colour."""


def self_test(
    json: Path | None, quiet: bool, console: Callable[..., Console], python: Path | None = None
) -> int:
    """Run the self-test with progress, print its lines; return the exit status.

    0 the measuring holds, 1 it does not, 2 it could not be told. Raises `TrainperfError` where
    there is nothing to test with, or `json` cannot be written.
    """
    from trainperf.commands.progress import Progress
    from trainperf.self_test.experiments import self_test as run
    from trainperf.self_test.judging import as_json

    outputs.check([("--json", json)])
    with Progress(console(stderr=True), quiet) as progress:
        progress.phase("self-test", expected_s=100.0)
        test = run(lambda text: progress.say(f"self-test: {text}"), given=python)
    out = console()
    render_lines(test.lines, out)
    status, style = {True: (0, "green"), False: (1, "bold red"), None: (2, "yellow")}[test.holds]
    out.print(f"{test.conclusion} ({test.seconds:.0f} s)", style=style)
    if json is not None:
        outputs.save(json, outputs.encoded(as_json(test)))
    return status


def render(checkup: Checkup, console: Console) -> None:
    """Print whether it can be diagnosed, and the checks with their advice."""
    machine, checks = checkup.machine, checkup.checks
    answer = "This machine can be diagnosed: trainperf diagnose train.py"
    problems = [check.name for check in checks if check.status == "problem"]
    if any(check.name == "Frameworks" and check.status != "ok" for check in checks):
        answer = "Not yet: the Python that would run the script has no framework to train with."
    elif problems:
        answer = f"This machine can be diagnosed, but not as it should run: {', '.join(problems)}."
    console.print(Text(answer, style="bold"))
    console.print(Text(f"{machine.hostname}: {machine.os}, Python {machine.python}"))
    console.print()
    render_lines(checks, console)


def render_lines(checks: Iterable[Check], console: Console) -> None:
    """Print checks as a table, and a blank line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=False, min_width=12, max_width=22)
    table.add_column(ratio=1)
    for check in checks:
        found = Text(check.text)
        if check.advice:
            found.append(f"\n→ {check.advice}", style="bold" if check.status == "problem" else "")
        table.add_row(Text(check.status, style=_STYLES[check.status]), Text(check.name), found)
    console.print(table)
    console.print()
