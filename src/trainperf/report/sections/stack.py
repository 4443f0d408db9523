"""The kept fixes together: each alone, all of them, and how they act on each other."""

from __future__ import annotations

from trainperf.model import Diagnosis, Stack, by_fix
from trainperf.model import words as units
from trainperf.report.document import DATA, GOOD, MODEL, STRONG, Page, Words, say


def stack(diagnosis: Diagnosis, page: Page) -> None:
    """Print what several kept fixes give together; a single one is told elsewhere."""
    kept = diagnosis.stack
    if kept is None or len(kept.fixes) < 2:
        return
    page.heading("The kept changes together")
    alone = by_fix(diagnosis.trials)
    rows: list[tuple[Words | str, str, float | None, str]] = [
        ("the script as it is", "", kept.before_step_s, DATA)
    ]
    for fix in kept.fixes:
        trial = alone.get(fix)
        if trial is None or trial.speedup is None:
            rows.append((f"{fix} alone", "not measured", None, ""))
            continue
        figure = units.measured(trial.speedup, trial.low, trial.high)
        rows.append((f"{fix} alone", figure, kept.before_step_s / trial.speedup, MODEL))
    many = len(kept.fixes)
    together = say("both together" if many == 2 else f"all {many} together", STRONG)
    whole = units.measured(kept.speedup, kept.low, kept.high)
    rows.append((together, whole, kept.after_step_s, GOOD))
    _bars(rows, page)
    page.prose(interaction(kept), indent=2)


def _bars(rows: list[tuple[Words | str, str, float | None, str]], page: Page) -> None:
    """Write a table of times for as many samples as a step of the script holds."""
    cells: list[list[Words | str]] = [
        [name, figure, "" if seconds is None else units.seconds(seconds)]
        for name, figure, seconds, _ in rows
    ]
    longest = max(seconds for _, _, seconds, _ in rows if seconds is not None)
    page.table(
        cells,
        right=(2,),
        elastic=(0,),
        lengths=[
            None if seconds is None or longest <= 0 else (seconds / longest, tone)
            for _, _, seconds, tone in rows
        ],
    )


def interaction(kept: Stack) -> str:
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
