"""The report of how busy the machine was."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from reporters.samples_observed import INPUT_BOUND
from trainperf.model import PhaseUse
from trainperf.report.document import Page, Section
from trainperf.report.sections.devices import devices
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def said(read_bytes_s: float | None) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=100, force_terminal=False, color_system=None))
    use = PhaseUse("real", 24, cpu_cores=1.1, read_bytes_s=read_bytes_s)
    page = Page()
    devices(replace(INPUT_BOUND, utilization=(use,)), page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return file.getvalue()


@pytest.mark.parametrize("rate", [None, 0.0, 735.0, 21e3])
def test_a_trickle_from_the_disk_is_not_spoken_of(rate: float | None) -> None:
    assert "busy" in said(rate)
    assert "reading" not in said(rate)


def test_what_is_read_from_the_disk_is_said() -> None:
    assert "reading 2.00 MiB/s" in said(2 * 1024**2)
