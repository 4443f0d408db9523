"""The report for a terminal: the verdict first, then why, what to do, and what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.console import Console

from trainperf.model import Diagnosis
from trainperf.report.document import LEFT, Section
from trainperf.report.whole import document, short
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

COLUMNS_OF_A_HALF = 84
"""Columns that each half of the report needs, for two of them to stand side by side."""

GUTTER = 4
"""Columns between the two halves."""


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
    written = document if full else short
    report = written(diagnosis, saved=saved, patch_file=patch_file)
    for beside, sections in groupby(report.sections, key=lambda one: bool(one.side)):
        if beside and paper.full >= 2 * COLUMNS_OF_A_HALF:
            _beside(list(sections), paper)
        else:
            _write(sections, paper)
    paper.print()


def _beside(sections: list[Section], paper: Paper) -> None:
    """Write where the time goes; on a wide terminal the costs stand beside the step."""
    half = paper.full // 2
    left, right = Paper(paper.console, half - GUTTER), Paper(paper.console, half)
    _write((one for one in sections if one.side == LEFT), left)
    _write((one for one in sections if one.side != LEFT), right)
    paper.beside(left, right)


def _write(sections: Iterable[Section] | Iterator[Section], paper: Paper) -> None:
    for one in sections:
        write(one, paper)
