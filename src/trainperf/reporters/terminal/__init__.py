"""The report for a terminal: the verdict first, then why, what to do, and what it gives."""

from __future__ import annotations

from rich.console import Console

from trainperf.model import Diagnosis
from trainperf.report.whole import report
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def render(
    diagnosis: Diagnosis,
    console: Console,
    *,
    saved: str = "",
    patch_file: str = "",
    full: bool = False,
) -> None:
    """Print the report on `console`: what bears on the verdict and the changes, or `full`.

    `saved` is the name `trainperf show` finds the run by, `patch_file` the file the
    patch was written to; the commands that need them are named only if they are given.
    """
    paper = Paper(console)
    for section in report(diagnosis, full=full, saved=saved, patch_file=patch_file):
        write(section, paper)
    paper.print()
