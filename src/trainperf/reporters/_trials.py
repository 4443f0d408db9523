"""What came of every fix that was tried on the script itself, and how it was tried."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from trainperf.model import Control, Diagnosis, Outcome, Trial, Trials, by_fix
from trainperf.model import words as units
from trainperf.reporters._paper import Paper

GROUPS = {
    Outcome.KEPT: ("kept", "bold green"),
    Outcome.CHANGES: ("tried, faster, but changes the experiment", "yellow"),
    Outcome.REDUNDANT: ("tried, adds nothing to the others", "yellow"),
    Outcome.NO_EFFECT: ("tried, no measurable effect", "yellow"),
    Outcome.SLOWER: ("tried, slower", "yellow"),
    Outcome.LOSSES_DIFFER: ("tried, losses differ", "red"),
    Outcome.FAILED: ("tried, failed", "red"),
    Outcome.NOT_TRIED: ("not tried", "bold"),
}
"""The outcomes in the order of the report: how each is headed, and in what style."""

BEATEN = "tried, another way to make the same change gives more"
ALONE = "tried alone, not on top of what is kept"

HEADINGS = dict((GROUPS[Outcome.KEPT], (BEATEN, "yellow"), (ALONE, "yellow"))) | dict(
    GROUPS.values()
)
"""The headings in the order of the report, with their styles."""

_LAYOUTS = (
    ("fix", "at most", "measured", "pairs", "steps"),
    ("fix", "at most", "measured", "steps"),
    ("fix", "at most", "measured"),
)
"""The columns, besides the losses at the right: the first that leaves them room is taken."""

_RIGHT = ("at most", "pairs", "steps")

_ROOM = 18
"""Columns that the losses want; with less, they go beneath the row."""


def trials(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the fixes by what came of them, with how they were measured above."""
    if not diagnosis.trials:
        return
    paper.heading("Tried on the script itself")
    for text in _how(diagnosis):
        paper.prose(text, indent=2)
    headings = {id(trial): _heading(trial, diagnosis) for trial in diagnosis.trials}
    order = list(HEADINGS)
    ordered = sorted(diagnosis.trials, key=lambda trial: order.index(headings[id(trial)]))
    lines, losses_at = _laid_out(ordered, paper)
    paper.line()
    paper.line(lines[0] + paper.say("losses", "dim") if losses_at else lines[0], 2)
    unmeasured = [
        line for line, trial in zip(lines[1:], ordered, strict=True) if trial.speedup is None
    ]
    hang = max((cell_len(line.plain.rstrip()) for line in unmeasured), default=0) + 2
    before = ""
    for trial, line in zip(ordered, lines[1:], strict=True):
        heading = headings[id(trial)]
        if heading != before:
            paper.line(paper.say(heading, HEADINGS[heading]), 2)
            before = heading
        if trial.speedup is None:
            _unmeasured(trial, line, hang, paper)
        else:
            _measured(trial, line, losses_at, paper)
    _rest(diagnosis, paper)


def _heading(trial: Trial, diagnosis: Diagnosis) -> str:
    best = by_fix(diagnosis.trials)[trial.fix]
    if trial.outcome is Outcome.REDUNDANT and trial.variant and best.kept:
        return BEATEN
    if trial.outcome is Outcome.NOT_TRIED and trial.speedup is not None:
        return ALONE
    return GROUPS[trial.outcome][0]


def _laid_out(ordered: list[Trial], paper: Paper) -> tuple[list[Text], bool]:
    """Lay the table out, header first, and say whether there is room for the losses."""
    rows = [_row(trial, paper) for trial in ordered]
    want = min(_ROOM, max(cell_len(trial.parity) for trial in ordered))
    for shown in _LAYOUTS if want else ():
        lines = _columns(rows, shown, paper)
        if 2 + cell_len(lines[0].plain) + 2 + want <= paper.width:
            return [line + Text("  ") for line in lines], True
    for shown in _LAYOUTS:
        if 2 + cell_len(_columns(rows, shown, paper)[0].plain) <= paper.full:
            return _columns(rows, shown, paper), False
    return _columns(rows, _LAYOUTS[-1], paper, elastic=(0,)), False


def _row(trial: Trial, paper: Paper) -> dict[str, Text | str]:
    bound = "" if trial.bound is None else units.bound(trial.bound)
    if trial.speedup is None:
        return {"fix": trial.name, "at most": bound}
    figure = units.measured(trial.speedup, trial.low, trial.high)
    return {
        "fix": trial.name,
        "at most": bound,
        "measured": paper.say(figure, "bold green" if trial.kept else ""),
        "pairs": f"{trial.pairs:,}",
        "steps": f"{trial.steps:,}",
    }


def _columns(
    rows: list[dict[str, Text | str]],
    shown: tuple[str, ...],
    paper: Paper,
    elastic: tuple[int, ...] = (),
) -> list[Text]:
    return paper.columns(
        [[row.get(name, "") for name in shown] for row in rows],
        header=shown,
        right=[i for i, name in enumerate(shown) if name in _RIGHT],
        elastic=elastic,
    )


def _unmeasured(trial: Trial, line: Text, hang: int, paper: Paper) -> None:
    """Write a row without figures: its reason stands in their place."""
    row = line.copy()
    row.rstrip()
    row.pad_right(hang - cell_len(row.plain))
    paper.prose(trial.reason or "no reason is known", indent=2, first=row)


def _measured(trial: Trial, line: Text, losses_beside: bool, paper: Paper) -> None:
    """Write a row with its losses, and beneath it what no column holds."""
    told = []
    if losses_beside and trial.parity:
        paper.prose(trial.parity, indent=2, first=line)
    else:
        paper.line(line, 2)
        told += [f"losses: {trial.parity}"] if trial.parity else []
    if trial.outcome is Outcome.NOT_TRIED and trial.reason:
        told.append(trial.reason)
    if once := _once(trial):
        told.append(once)
    if told:
        paper.prose(paper.say("; ".join(told), "dim"), indent=4)


def _once(trial: Trial) -> str:
    """Say what a fix costs once, and when that is earned back."""
    if not trial.one_off_s or trial.one_off_s < 0:
        return ""
    back = trial.break_even_steps
    earned = "" if back is None else f", earned back after {units.count(back, 'step')}"
    return f"costs {units.seconds(trial.one_off_s)} once{earned}"


def _how(diagnosis: Diagnosis) -> list[str]:
    """Say how the trials were made, and how much of their figures could be noise."""
    trying, measured = diagnosis.trying, [one for one in diagnosis.trials if one.pairs]
    told = []
    if trying is not None and trying.mode != "none":
        told.append(_mode(trying, measured))
    if trying is not None and trying.passive and trying.mode != "none":
        told.append(
            "Neighbours took cores, so threads of OpenMP slept where they waited for one another "
            "(OMP_WAIT_POLICY=passive), in every leg."
        )
    if trying is not None and trying.huge_pages and measured:
        told.append(
            "Tensors lay on huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1) in every leg: on "
            "small ones two runs of one script can differ."
        )
    if trying is not None and trying.reason:
        told.append(f"{trying.reason[0].upper()}{trying.reason[1:].rstrip('.')}.")
    control = diagnosis.control
    if control is not None:
        told.append(_control(control))
    elif measured:
        told.append(
            "Control: the script was not compared with itself, so how much could be noise is "
            "not known."
        )
    return told


def _mode(trying: Trials, measured: list[Trial]) -> str:
    if trying.mode == "side by side":
        held = trying.mode_reason or "a few steps"
        text = f"Side by side: the script and each change took turns in slices of {held}"
    else:
        text = "One after another: fresh processes of the script and of each change, in turns"
    if measured:
        each = " each" if len(measured) > 1 else ""
        pairs = _from_to([trial.pairs for trial in measured], "pair")
        text += f", {pairs}{each} ({_from_to([trial.steps for trial in measured], 'step')})"
    if trying.seed is not None:
        text += f", all from the seed {trying.seed}"
    why = trying.mode_reason.rstrip(".")
    return f"{text}. They did not run side by side because {why}." if _late(trying) else f"{text}."


def _from_to(many: list[int], thing: str) -> str:
    least, most = min(many), max(many)
    return units.count(most, thing) if least == most else f"{least:,} to {most:,} {thing}s"


def _late(trying: Trials) -> bool:
    return trying.mode == "one after another" and bool(trying.mode_reason)


def _control(control: Control) -> str:
    figure = units.measured(control.speedup, control.low, control.high)
    text = (
        f"Control (the script against itself): {figure}, so gains below "
        f"{units.share(control.floor)} could be noise."
    )
    if control.reproducible is None:
        return f"{text} No losses were seen, so they could not be compared."
    if control.reproducible:
        return f"{text} Its losses were the same from run to run."
    band = control.loss_band
    much = "" if band is None else f" by up to {units.share(band)}"
    judged = ": changes were judged by that band" if band is not None else ""
    return f"{text} The script's losses differ from run to run{much}{judged}."


def _rest(diagnosis: Diagnosis, paper: Paper) -> None:
    """Say what budget would have let all be tried."""
    trying = diagnosis.trying
    if trying is None or trying.budget_needed_s is None:
        return
    paper.line()
    needed = units.budget(trying.budget_needed_s)
    paper.prose(f"With `--budget {needed}` there is time for those that it ran out for.", indent=2)
