"""An examination as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainperf.machine.doctor.checks import Check, Checkup, Status

# The word stands for itself where there is no colour.
_STYLES: dict[Status, str] = {
    "ok": "green",
    "warning": "yellow",
    "problem": "bold red",
    "unknown": "dim",
}


def render(checkup: Checkup, console: Console) -> None:
    """Print the checks as a table, each with its advice, and a closing sentence."""
    machine = checkup.machine
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
