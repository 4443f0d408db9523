"""The report of the time between epochs."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from reporters.samples_observed import INPUT_BOUND
from trainperf.model import BetweenEpochs, Loop
from trainperf.report.document import Page, Section
from trainperf.report.sections.costs import between_epochs
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper


def said(loop: Loop = INPUT_BOUND.loop, **parts: Any) -> str:
    file = io.StringIO()
    paper = Paper(Console(file=file, width=100, force_terminal=False, color_system=None))
    between = BetweenEpochs(1.0, 2, 100, **parts)
    page = Page()
    between_epochs(replace(INPUT_BOUND, loop=loop, between_epochs=between), page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return " ".join(file.getvalue().split())


def test_what_the_parts_explain_has_no_rest() -> None:
    assert said(validation_s=0.9, restart_s=0.05).endswith(
        "validation 900 ms, restarting the input 50.0 ms; seen 2 times"
    )


def test_nothing_told_apart_is_not_all_put_down_to_the_rest() -> None:
    assert said().endswith("of the time; seen 2 times")


def test_a_rest_that_matters_is_named_for_whose_work_it_is() -> None:
    assert "callbacks and Keras's own work 600 ms; seen" in said(validation_s=0.4)
    assert "callbacks 100 ms, Keras's own work 500 ms; seen" in said(
        validation_s=0.4, callbacks_s=0.1
    )
    own = Loop("dataset", batch_size=32)
    assert "input 10.0 ms, what the script does there besides 990 ms; seen" in said(
        own, restart_s=0.01
    )
