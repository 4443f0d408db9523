"""The trials by their outcomes, how they were made, and the kept fixes together."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby

from trainperf.model import Control, Diagnosis, Outcome, Stack, Trial, Trials, by_fix
from trainperf.model import words as units
from trainperf.report.document import (
    BAD,
    CHANGES,
    DATA,
    GOOD,
    MODEL,
    STRONG,
    WARN,
    Page,
    Section,
    TrialRows,
    Tried,
    Words,
    say,
)
from trainperf.report.level import beside_trials
from trainperf.report.sections.experiment import apart

GROUPS = {
    Outcome.KEPT: ("kept", GOOD),
    Outcome.CHANGES: ("tried, faster, but changes the experiment", WARN),
    Outcome.LOSES: ("tried, faster, but does not pay in this training", WARN),
    Outcome.REDUNDANT: ("tried, adds nothing to the others", WARN),
    Outcome.NO_EFFECT: ("tried, no measurable effect", WARN),
    Outcome.SLOWER: ("tried, slower", WARN),
    Outcome.LOSSES_DIFFER: ("tried, losses differ", BAD),
    Outcome.FAILED: ("tried, failed", BAD),
    Outcome.NOT_TRIED: ("not tried", STRONG),
}
"""The outcomes in the order of the report: how each is headed, and in what style."""

SAYS_WHY = (Outcome.NOT_TRIED, Outcome.LOSES)
"""Outcomes that no figure of the trial explains."""

IN_THE_LOOP = "in the loop"
"""The basis of what a probe has decided."""

BEATEN = "tried, another way to make the same change gives more"
ALONE = "tried alone, not on top of what is kept"

UNDECIDED = "tried, not told from noise"

HEADINGS = dict((GROUPS[Outcome.KEPT], (BEATEN, WARN), (ALONE, WARN), (UNDECIDED, WARN))) | dict(
    GROUPS.values()
)
"""The headings in the order of the report, with their styles."""


def trials(diagnosis: Diagnosis, page: Page) -> None:
    """Print the fixes by what came of them, with how they were measured above."""
    if not diagnosis.trials:
        return
    page.heading("Tried on the script itself")
    for text in how(diagnosis):
        page.prose(text, indent=2)
    page.gap()
    page.add(TrialRows(tuple(row(trial, diagnosis) for trial in ordered(diagnosis))))
    rest(diagnosis, page)


NO_CONTROL = (
    "Control: the script was not compared with itself, so how much could be noise is not known."
)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print how the script met itself, and name what was not kept by what came of it."""
    found, trying = ordered(diagnosis), diagnosis.trying
    cut_short = bool(found) and trying is not None and trying.interrupted
    if all(one.outcome is Outcome.NOT_TRIED for one in found) and not cut_short:
        return
    page.heading("Tried on the script itself")
    if trying is not None and cut_short:
        page.prose(_sentence(trying.reason or "interrupted"), indent=2)
    if diagnosis.control is not None:
        control = diagnosis.control
        figure = units.measured(control.speedup, control.low, control.high)
        noise = f"gains below {units.share(control.floor)} could be noise"
        page.prose(f"The script against itself: {figure}, so {noise}.", indent=2)
    elif any(map(_by_slices, found)):
        page.prose(NO_CONTROL, indent=2)
    if busy := beside_trials(diagnosis):
        page.prose(busy, indent=2)
    told = apart(diagnosis)
    rest = [one for one in found if not one.kept and one.fix not in told]
    for words, those in groupby(rest, key=lambda one: heading(one, diagnosis)):
        page.prose(f"{words.capitalize()}: {', '.join(map(_figure, those))}.", indent=2)


def _figure(trial: Trial) -> str:
    """A trial's name, with what it measured."""
    if trial.speedup is None:
        return trial.name
    place = f" {IN_THE_LOOP}" if trial.basis == IN_THE_LOOP else ""
    return f"{trial.name} {units.ratio(trial.speedup)}{place}"


def ordered(diagnosis: Diagnosis) -> list[Trial]:
    """The trials in the order of the report: by what came of them."""
    order = list(HEADINGS)
    return sorted(diagnosis.trials, key=lambda trial: order.index(heading(trial, diagnosis)))


def heading(trial: Trial, diagnosis: Diagnosis) -> str:
    best = by_fix(diagnosis.trials)[trial.fix]
    if trial.outcome is Outcome.REDUNDANT and trial.variant and best.kept:
        return BEATEN
    if trial.outcome is Outcome.NOT_TRIED and trial.speedup is not None:
        return ALONE
    if trial.undecided:
        return UNDECIDED
    return GROUPS[trial.outcome][0]


def row(trial: Trial, diagnosis: Diagnosis) -> Tried:
    """A trial as a row of the table of all of them."""
    bound = "" if trial.bound is None else units.bound(trial.bound)
    came = heading(trial, diagnosis)
    row = Tried(came, HEADINGS[came], trial.name, bound, reason=trial.why, losses=trial.parity)
    if trial.speedup is None:
        return row
    return replace(
        row,
        measured=units.measured(trial.speedup, trial.low, trial.high),
        kept=trial.kept,
        pairs=f"{trial.pairs:,}",
        steps=f"{trial.steps:,}" if trial.basis == "steps" else "",
        reason=trial.why if trial.outcome in SAYS_WHY else trial.how,
        once=once(trial),
    )


def _by_slices(trial: Trial) -> bool:
    return trial.basis == "steps" and bool(trial.pairs)


def once(trial: Trial) -> str:
    """Say what a fix costs once, and when that is earned back."""
    if not trial.one_off_s or trial.one_off_s < 0:
        return ""
    back = trial.break_even_steps
    earned = "" if back is None else f", earned back after {units.count(back, 'step')}"
    return f"costs {units.seconds(trial.one_off_s)} once{earned}"


def how(diagnosis: Diagnosis) -> list[str]:
    """Say how the trials were made, and how much of their figures could be noise."""
    trying, measured = diagnosis.trying, list(filter(_by_slices, diagnosis.trials))
    told = []
    if trying is not None and trying.mode != "none":
        told.append(_mode(trying, measured))
    if trying is not None and trying.passive and trying.mode != "none":
        told.append(
            "Neighbours took cores, so threads of OpenMP slept where they waited for one another "
            "(OMP_WAIT_POLICY=passive), in every process."
        )
    if trying is not None and trying.huge_pages and measured:
        told.append(
            "Tensors lay on huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1) in every process: "
            "on small ones two runs of one script can differ."
        )
    if trying is not None and trying.growth and measured:
        told.append(
            "TensorFlow took the GPU memory that it needed, not all there is "
            "(TF_FORCE_GPU_ALLOW_GROWTH=true), in every process."
        )
    if trying is not None and trying.reason:
        told.append(_sentence(trying.reason))
    if any(trial.basis == IN_THE_LOOP for trial in diagnosis.trials):
        told.append(
            'What stands "in the loop" was measured there, in turns with the step as it is; it '
            "gained nothing, so no process was started for it."
        )
    control = diagnosis.control
    if control is not None:
        told.append(_control(control) if measured else against_itself(control))
    elif measured:
        told.append(NO_CONTROL)
    if busy := beside_trials(diagnosis):
        told.append(busy)
    return told


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:].rstrip('.')}."


def _mode(trying: Trials, measured: list[Trial]) -> str:
    if trying.mode == "side by side":
        held = trying.mode_reason or "a few steps"
        text = f"Side by side: the script and each change took turns in slices of {held}"
        if trying.two_legs:
            text += f", two at a time, as {trying.two_legs}"
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


def against_itself(control: Control) -> str:
    """Say how the script meets itself, and so what could be noise."""
    figure = units.measured(control.speedup, control.low, control.high)
    return (
        f"Control (the script against itself): {figure}, so gains below "
        f"{units.share(control.floor)} could be noise."
    )


def _control(control: Control) -> str:
    text = against_itself(control)
    if control.reproducible is None:
        return f"{text} No losses were seen, so they could not be compared."
    if control.reproducible:
        return f"{text} Its losses were the same from run to run."
    band = control.loss_band
    much = "" if band is None else f" by up to {units.share(band)}"
    judged = ": changes were judged by that band" if band is not None else ""
    return f"{text} The script's losses differ from run to run{much}{judged}."


def rest(diagnosis: Diagnosis, page: Page) -> None:
    """Say what budget would have let all be tried."""
    trying = diagnosis.trying
    if trying is None or trying.budget_needed_s is None:
        return
    page.gap()
    needed = units.budget(trying.budget_needed_s)
    page.prose(f"With `--budget {needed}` there is time for those that it ran out for.", indent=2)


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
        beneath = (alone[one].speedup or 1.0 for one in trial.on_top if one in alone)
        took = kept.before_step_s / math.prod(beneath) / trial.speedup
        rows.append((f"{fix} {'on top' if trial.on_top else 'alone'}", figure, took, MODEL))
    many = len(kept.fixes)
    together = say("both together" if many == 2 else f"all {many} together", STRONG)
    whole = units.measured(kept.speedup, kept.low, kept.high)
    rows.append((together, whole, kept.after_step_s, GOOD))
    longest = max(seconds for _, _, seconds, _ in rows if seconds is not None)
    page.table(
        [[name, gain, "" if took is None else units.seconds(took)] for name, gain, took, _ in rows],
        right=(2,),
        elastic=(0,),
        lengths=[
            None if seconds is None or longest <= 0 else (seconds / longest, tone)
            for _, _, seconds, tone in rows
        ],
    )
    page.prose(interaction(kept), indent=2)


def interaction(kept: Stack) -> str:
    if not kept.together:
        return "Not measured together: the product of these, each on top of those before it."
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


SECTIONS = (
    Section("trials", CHANGES + 20, trials, short, side="trials"),
    Section("stack", CHANGES + 30, stack, side="together"),
)
