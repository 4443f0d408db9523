"""`trainperf doctor`: the examination of the machine, and the self-test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainperf.errors import TrainperfError
from trainperf.machine.doctor.checks import Check, Checkup, Status

HOLDS, DOES_NOT, UNKNOWN = 0, 1, 2


def examine(console: Console, python: Path | None) -> None:
    """Print what the machine is and what does not fit, each with its advice, and how it sums up."""
    from trainperf.machine.doctor.examine import examine as look

    render(look(python), console)


def self_test(
    json: Path | None, quiet: bool, console: Callable[..., Console], python: Path | None = None
) -> int:
    """Run the self-test with progress, print its lines; return the exit status.

    Raises `TrainperfError` where there is nothing to test with, or `json` cannot be written.
    """
    from trainperf.commands.progress import Progress
    from trainperf.self_test import self_test as run
    from trainperf.self_test.judging import as_json

    if json is not None and not json.absolute().parent.is_dir():
        raise TrainperfError(f"there is no folder {json.absolute().parent}", "check the path")
    with Progress(console(stderr=True), quiet) as progress:
        progress.phase("self-test", expected_s=100.0)
        test = run(lambda text: progress.say(f"self-test: {text}"), given=python)
    out = console()
    render_lines(test.lines, out)
    style = {True: "green", False: "bold red", None: "yellow"}[test.holds]
    out.print(f"{test.conclusion} ({test.seconds:.0f} s)", style=style)
    if json is not None:
        try:
            json.write_text(as_json(test), encoding="utf-8")
        except OSError as error:
            raise TrainperfError(
                f"cannot write {json}: {error.strerror}", "check the path"
            ) from error
    if test.holds is None:
        return UNKNOWN
    return HOLDS if test.holds else DOES_NOT


# The word stands for itself where there is no colour.
_STYLES: dict[Status, str] = {
    "ok": "green",
    "warning": "yellow",
    "problem": "bold red",
    "unknown": "dim",
}


def _answer(checkup: Checkup) -> str:
    """Whether a training can be diagnosed here, and what stands against it."""
    lacking = [check for check in checkup.checks if check.name == "Frameworks"]
    if lacking and lacking[0].status != "ok":
        return "Not yet: the Python that would run the script has no framework to train with."
    if checkup.worst == "problem":
        names = (check.name for check in checkup.checks if check.status == "problem")
        return f"This machine can be diagnosed, but not as it should run: {', '.join(names)}."
    return "This machine can be diagnosed: trainperf diagnose train.py"


def render(checkup: Checkup, console: Console) -> None:
    """Print the checks as a table, each with its advice, and a closing sentence."""
    machine = checkup.machine
    console.print(Text(_answer(checkup), style="bold"))
    console.print(Text(f"{machine.hostname}: {machine.os}, Python {machine.python}"))
    console.print()
    render_lines(checkup.checks, console)
    console.print(Text(conclusion(checkup), style=_STYLES[checkup.worst]))


def render_lines(checks: Iterable[Check], console: Console) -> None:
    """Print checks as a table, and a blank line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=False, min_width=12, max_width=22)
    table.add_column(ratio=1)
    for check in checks:
        table.add_row(
            Text(check.status, style=_STYLES[check.status]), Text(check.name), _finding(check)
        )
    console.print(table)
    console.print()


def conclusion(checkup: Checkup) -> str:
    """Return the examination in one sentence."""
    counts = {status: sum(check.status == status for check in checkup.checks) for status in _STYLES}
    found = [
        f"{counts[status]} {status}{'s' if counts[status] > 1 else ''}"
        for status in ("problem", "warning")
        if counts[status]
    ]
    sentence = f"Found {' and '.join(found)}" if found else "Nothing wrong found"
    unknown = counts["unknown"]
    return f"{sentence}{f'; {unknown} could not be checked' if unknown else ''}."


def _finding(check: Check) -> Text:
    text = Text(check.text)
    if check.advice:
        text.append(f"\n→ {check.advice}", style="bold" if check.status == "problem" else "")
    return text
