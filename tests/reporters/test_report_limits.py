"""The report of the container's limits."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from reporters.samples_observed import INPUT_BOUND
from trainperf.model import ContainerUse
from trainperf.report.document import Page, Section
from trainperf.report.sections.devices import limits
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

GIB = 1024**3


def said(use: ContainerUse | None, width: int = 100) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=width, force_terminal=False, color_system=None))
    page = Page()
    limits(replace(INPUT_BOUND, container=use), page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return " ".join(file.getvalue().split())


def used(**fields: Any) -> ContainerUse:
    return ContainerUse(20.0, quota_cores=2.0, memory_limit=8 * GIB, **fields)


@pytest.mark.parametrize(
    "use",
    [
        None,
        ContainerUse(20.0),
        used(),
        used(throttled_share=0.0, throttled_s=0.0),
        used(throttled_share=0.001, throttled_s=0.01),
        used(memory_peak=4 * GIB, memory_pressure=0.01),
        used(memory_events=(("max", 50), ("oom_kill", 0))),
        used(swapped_in=0, swapped_out=GIB),
        used(cpu_pressure=0.9, io_pressure=0.9),
    ],
)
def test_limits_that_cost_nothing_are_not_spoken_of(use: ContainerUse | None) -> None:
    assert said(use) == ""


def test_a_quota_that_was_used_up_is_said_with_its_price() -> None:
    text = said(used(throttled_share=0.71, throttled_s=12.3))
    assert text.startswith("Limits of the container")
    assert "CPU quota of 2 cores: used up in 71 % of its periods" in text
    assert "stood still for 12.3 s, summed over cores" in text


def test_memory_near_its_limit_and_kills_are_said() -> None:
    text = said(used(memory_peak=int(7.8 * GIB), memory_events=(("oom_kill", 2),)))
    assert "7.80 GiB of 8.00 GiB used at most" in text
    assert "ended 2 processes" in text


def test_waiting_for_memory_says_whose() -> None:
    assert "a task of the container waited" in said(
        used(memory_pressure=0.2, pressure_of="container")
    )
    assert "a task of the machine waited" in said(used(memory_pressure=0.2, pressure_of="machine"))


def test_swapping_is_the_machines() -> None:
    text = said(ContainerUse(20.0, swapped_in=3 * GIB))
    assert text == "Limits of the machine - Swap: 3.00 GiB read back by the whole machine"
