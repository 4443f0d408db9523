"""Terminal reports as text, for tests."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from rich.console import Console

from trainperf.model import Diagnosis
from trainperf.report.document import Page
from trainperf.reporters.terminal import render
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def section(
    writer: Callable[[Any, Page], Any], diagnosis: Any, width: int = 200, full: bool = True
) -> str:
    """What one section writes, its lines joined."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    paper, page = Paper(Console(file=file, width=width, color_system=None)), Page(full=full)
    writer(diagnosis, page)
    write(page, paper)
    paper.print()
    file.seek(0)
    return " ".join(file.read().split())


FINDINGS, TRIALS = "What to change", "Tried on the script itself"


def text(diagnosis: Diagnosis, width: int = 80, full: bool = True, **options: Any) -> str:
    """The report as a pipe receives it."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=False, color_system=None)
    render(diagnosis, console, full=full, **options)
    return file.getvalue()


def coloured(diagnosis: Diagnosis, width: int = 80, no_color: bool = False) -> str:
    """The report as a terminal receives it."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, color_system="standard", no_color=no_color
    )
    render(diagnosis, console, full=True)
    return file.getvalue()


def part(report: str, heading: str) -> str:
    """A section of a report, its lines joined, from a heading to the next."""
    section = re.split(r"\n(?=\S)", report.split(f"\n{heading}\n")[1])[0]
    return " ".join(section.split())


def of(diagnosis: Diagnosis, heading: str = TRIALS, width: int = 100) -> str:
    return part(text(diagnosis, width), heading)
