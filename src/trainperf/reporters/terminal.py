"""The report for a terminal: the verdict first, then why, what to do, and what it gives."""

from __future__ import annotations

from rich.console import Console

from trainperf.model import Diagnosis
from trainperf.reporters import (
    _closing,
    _costs,
    _devices,
    _exchange,
    _findings,
    _limits,
    _money,
    _objects,
    _operators,
    _outside,
    _parallel,
    _parts,
    _stack,
    _step,
    _storage,
    _trials,
)
from trainperf.reporters._paper import Paper

COLUMNS_OF_A_HALF = 84
"""Columns that each half of the report needs, for two of them to stand side by side."""

GUTTER = 4
"""Columns between the two halves."""


def render(
    diagnosis: Diagnosis, console: Console, *, saved: str = "", patch_file: str = ""
) -> None:
    """Print the report on `console`; sections without content are left out.

    `saved` is the name `trainperf show` finds the run by, `patch_file` the file the
    patch was written to; the commands that need them are named only if they are given.
    """
    paper = Paper(console)
    _step.partial(diagnosis, paper)
    _parallel.absent(diagnosis, paper)
    _step.verdict(diagnosis, paper)
    _step.last_output(diagnosis, paper)
    _taken_apart(diagnosis, paper)
    _findings.findings(diagnosis, paper)
    _trials.trials(diagnosis, paper)
    _stack.stack(diagnosis, paper)
    _findings.practices(diagnosis, paper)
    _closing.not_measured(diagnosis, paper)
    _closing.notes(diagnosis, paper)
    _closing.ignored(diagnosis, paper)
    _closing.next_steps(diagnosis, paper, saved, patch_file)
    _money.cost(diagnosis, paper)
    _closing.cost(diagnosis, paper)
    _closing.last_line(diagnosis, paper)
    paper.print()


def _taken_apart(diagnosis: Diagnosis, paper: Paper) -> None:
    """Write where the time goes; on a wide terminal the costs stand beside the step."""
    wide = paper.full >= 2 * COLUMNS_OF_A_HALF
    half = paper.full // 2
    left = Paper(paper.console, half - GUTTER) if wide else paper
    right = Paper(paper.console, half) if wide else paper
    _outside.outside(diagnosis, left)
    _step.step(diagnosis, left)
    _parallel.ranks(diagnosis, left)
    _exchange.exchange(diagnosis, left)
    _parallel.scaling(diagnosis, left)
    _parts.step_parts(diagnosis, left)
    _parts.sync_points(diagnosis, left)
    _operators.operators(diagnosis, left)
    _devices.devices(diagnosis, right)
    _storage.storage(diagnosis, right)
    _objects.objects(diagnosis, right)
    _limits.limits(diagnosis, right)
    _costs.input_stages(diagnosis, right)
    _costs.between_epochs(diagnosis, right)
    _costs.callbacks(diagnosis, right)
    _costs.functions(diagnosis, right)
    if wide:
        paper.beside(left, right)
