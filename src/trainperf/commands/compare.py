"""`trainperf compare A B`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainperf.commands import run_folders
from trainperf.commands._shared import console, read_settings

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.compare import Comparison


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def compare(a: Path, b: Path) -> None:
    """Say what is different in run B against run A.

    Each is the name of a run, its folder, or a JSON file. What differs by no more than
    the noise of the two is not called a change.
    """
    from trainperf import compare, store

    settings = read_settings({})
    first, second = (store.load(run_folders.find(path, settings)) for path in (a, b))
    render(compare.compare(first, second), console())


def render(found: Comparison, console: Console) -> None:
    """Print what changed, and how the speed did."""
    from trainperf.model import words
    from trainperf.reporters.terminal.paper import Paper

    paper, write = Paper(console), {"s": words.seconds, "share": words.share}
    for name, side in (("before", found.before), ("after", found.after)):
        paper.prose(side, first=paper.raw(f"{name:8}", "dim"))
    for title, rows in found.tables.items():
        cells = []
        for row in rows:
            values = (
                write.get(row.unit, words.number)(value) if isinstance(value, float) else value
                for value in (row.before, row.after)
            )
            change = "" if row.change is None else f"{row.change * 100:+.1f} %"
            cells.append((row.name, *(value or "—" for value in values), change, row.judged))
        if cells:
            paper.heading(title)
            paper.table(cells, header=("", "before", "after", "", ""), elastic=(0, 1, 2, 4))
    paper.line()
    for refusal in found.refusals:
        paper.prose(refusal, 2, first=paper.raw("- "))
    paper.prose(found.speed)
    paper.print()
