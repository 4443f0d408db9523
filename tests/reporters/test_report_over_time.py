"""The report of late steps against early ones."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from reporters.samples_observed import INPUT_BOUND
from trainperf.model import OverTime
from trainperf.report.document import Page, Section
from trainperf.report.sections.costs import over_time
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

SLOWER = OverTime(60.0, 600, 0.1, 0.15, 1.5, 1.47, 1.53)


def said(seen: OverTime | None) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=200, force_terminal=False, color_system=None))
    page = Page()
    over_time(replace(INPUT_BOUND, over_time=seen), page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return " ".join(file.getvalue().split())


@pytest.mark.parametrize(
    "seen",
    [
        None,
        replace(SLOWER, low=1.05),
        replace(SLOWER, disturbed=True),
        replace(SLOWER, rising=False),
        replace(SLOWER, batch_ratio=1.5),
    ],
)
def test_a_run_that_does_not_become_slower_says_nothing(seen: OverTime | None) -> None:
    assert said(seen) == ""


def test_a_run_that_becomes_slower_says_by_how_much() -> None:
    text = said(SLOWER)
    assert "Over time (one run: 1 min, 600 steps)" in text
    assert "late 150 ms, early 100 ms: 1.50× (1.47 to 1.53) as long" in text


def test_smaller_batches_are_said() -> None:
    assert "late ones have 0.500 times the bytes" in said(replace(SLOWER, batch_ratio=0.5))
