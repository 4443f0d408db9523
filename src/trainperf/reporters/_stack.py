"""The kept fixes together: each alone, all of them, and how they act on each other."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from trainperf.model import Diagnosis, Stack, by_fix
from trainperf.model import words as units
from trainperf.reporters._paper import Paper

BAR = 40
"""Columns of the longest bar at most."""


def stack(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what several kept fixes give together; a single one is told elsewhere."""
    kept = diagnosis.stack
    if kept is None or len(kept.fixes) < 2:
        return
    paper.heading("The kept changes together")
    alone = by_fix(diagnosis.trials)
    rows: list[tuple[Text | str, str, float | None, str]] = [
        ("the script as it is", "", kept.before_step_s, "yellow")
    ]
    for fix in kept.fixes:
        trial = alone.get(fix)
        if trial is None or trial.speedup is None:
            rows.append((f"{fix} alone", "not measured", None, ""))
            continue
        figure = units.measured(trial.speedup, trial.low, trial.high)
        rows.append((f"{fix} alone", figure, kept.before_step_s / trial.speedup, "green"))
    many = len(kept.fixes)
    together = paper.say("both together" if many == 2 else f"all {many} together", "bold")
    whole = units.measured(kept.speedup, kept.low, kept.high)
    rows.append((together, whole, kept.after_step_s, "bold green"))
    _bars(rows, paper)
    paper.prose(_interaction(kept), indent=2)


def _bars(rows: list[tuple[Text | str, str, float | None, str]], paper: Paper) -> None:
    """Write a table of times for as many samples as a step of the script holds."""
    cells: list[list[Text | str]] = [
        [name, figure, "" if seconds is None else units.seconds(seconds)]
        for name, figure, seconds, _ in rows
    ]
    lines = paper.columns(cells, right=(2,), elastic=(0,))
    room = min(BAR, paper.full - 4 - max(cell_len(line.plain) for line in lines))
    longest = max(seconds for _, _, seconds, _ in rows if seconds is not None)
    for line, (_, _, seconds, style) in zip(lines, rows, strict=True):
        if seconds is None or longest <= 0 or room < 8:
            paper.line(line, 2)
        else:
            paper.line(line + Text("  ") + paper.length(seconds / longest, room, style), 2)


def _interaction(kept: Stack) -> str:
    measured = f"{units.count(kept.pairs, 'pair')} of slices, {units.count(kept.steps, 'step')}"
    if kept.interaction is None:
        return f"Measured together in {measured}."
    product = kept.speedup / kept.interaction
    whole = units.measured(kept.speedup, kept.low, kept.high).partition(" ")[0]
    parts = f"Together {whole} ({measured}); the parts would multiply to {units.bound(product)}"
    if kept.low <= product <= kept.high:
        return f"{parts}: each gives its own gain, whatever the others do."
    if product > kept.speedup:
        return f"{parts}: they share a part of the gain."
    return f"{parts}: one makes room for the other."
