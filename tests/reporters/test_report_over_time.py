"""The report of late steps against early ones."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from reporters.samples_observed import INPUT_BOUND
from trainperf.fixes.over_time._growth import LIST, MEMORY, over_time
from trainperf.model import OverTime
from trainperf.report.document import Page, Section
from trainperf.report.sections import over_time as section
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def said(seen: OverTime | None) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=200, force_terminal=False, color_system=None))
    page = Page()
    section.over_time(replace(INPUT_BOUND, over_time=seen), page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return " ".join(file.getvalue().split())


@pytest.mark.parametrize(
    "seen", [None, over_time(soak=False), over_time(1.5, soak=False, disturbed=True)]
)
def test_a_run_that_does_not_become_slower_says_nothing(seen: OverTime | None) -> None:
    assert said(seen) == ""


def test_an_ordinary_run_that_becomes_slower_names_the_soak() -> None:
    text = said(over_time(1.5, soak=False))
    assert "late 150 ms, early 100 ms: 1.5" in text
    assert "`--soak 10m`" in text


def test_a_healthy_soak_says_that_it_is() -> None:
    text = said(over_time(grown=(LIST,)))
    assert "1.00× (0.98 to 1.02) as long" in text
    assert "memory no steady growth" in text
    assert "losses" not in text


def test_what_grew_is_said_with_its_line() -> None:
    text = said(over_time(1.5, memory=MEMORY, grown=(LIST,)))
    assert "`losses` (train.py:23): 40 after 40 steps, 1,440 after 1,440" in text
    assert "195 KiB more with each step" in text


def test_what_is_a_leak_by_itself_is_said_where_it_costs_nothing_yet() -> None:
    files = replace(LIST, kind="files", name="open files", where=None)
    text = said(over_time(grown=(files, replace(LIST, holds_graph=True), LIST)))
    assert "open files: 40 after 40 steps" in text
    assert text.count("`losses`") == 1


def test_larger_batches_are_said() -> None:
    assert "late ones have 1.50 times the bytes" in said(over_time(1.5, batch_ratio=1.5))


def test_slower_steps_of_which_nothing_grew_are_said_to_be_so() -> None:
    assert "Nothing that the script holds by a name" in said(over_time(1.5))
