"""The trials by their outcomes, and how they were made; the answers to changes to be proved."""

from __future__ import annotations

from itertools import groupby

from trainperf.model import Control, Diagnosis, Outcome, Proof, Trial, by_fix
from trainperf.model import words as units
from trainperf.model.findings import OPEN
from trainperf.report.document import (
    BAD,
    CHANGES,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Page,
    Section,
    exactly,
    given,
    say,
)
from trainperf.report.level import took
from trainperf.report.sections.training import change as whole_training

HEADING = "Tried on the script itself"

BEATEN = "tried, another way to make the same change is kept"
ALONE = "tried alone, not kept"
UNDECIDED = "tried, not told from noise"

GROUPS: dict[Outcome | str, tuple[str, str]] = {
    Outcome.KEPT: ("kept", GOOD),
    BEATEN: (BEATEN, WARN),
    ALONE: (ALONE, WARN),
    UNDECIDED: (UNDECIDED, WARN),
    Outcome.CHANGES: ("tried, faster, but changes the experiment", WARN),
    Outcome.LOSES: ("tried, faster, but does not pay in this training", WARN),
    Outcome.REDUNDANT: ("tried, adds nothing to the others", WARN),
    Outcome.NO_EFFECT: ("tried, no measurable effect", WARN),
    Outcome.SLOWER: ("tried, slower", WARN),
    Outcome.LOSSES_DIFFER: ("tried, losses differ", BAD),
    Outcome.FAILED: ("tried, failed", BAD),
    Outcome.NOT_TRIED: ("not tried", QUIET),
}
"""What trials came to, in the order of the report: how each is headed, and in what tone."""

SAYS_WHY = (Outcome.NOT_TRIED, Outcome.LOSES)
"""Outcomes that no figure of the trial explains."""

NO_CONTROL = "The script was not compared with itself: how much could be noise is not known."

MAY_HAVE_ONE = "what had no measurable effect may have one"


def trials(diagnosis: Diagnosis, page: Page) -> None:
    """Print the fixes by what came of them, and how they were measured.

    A short report names those that were not kept.
    """
    found, trying = ordered(diagnosis), diagnosis.trying
    cut_short = trying is not None and trying.interrupted
    untried = all(trial.outcome is Outcome.NOT_TRIED for trial in found)
    if not found or (untried and not (page.full or cut_short)):
        return
    page.heading(HEADING)
    why = "" if trying is None else trying.mode_reason.rstrip(".")
    if page.full and trying is not None and trying.mode == "side by side":
        slices = why or "a few steps"
        page.prose(f"The script and each change ran alternately, in slices of {slices}.", 2)
    elif page.full and trying is not None and trying.mode != "none":
        how = "One after another, in fresh processes of the script and of each change"
        page.prose(f"{how}{f': {why}' if why else ''}.", 2)
    _trust(diagnosis, page)
    told = {change.finding.id for change in diagnosis.experiment_changes}
    rest = found if page.full else [one for one in found if not (one.kept or one.fix in told)]
    for (words, tone), those in groupby(rest, key=lambda trial: came_to(trial, diagnosis)):
        if not page.full:
            figures = ((trial.name, given(units.ratio, trial.speedup)) for trial in those)
            named = (" ".join(filter(None, figure)) for figure in figures)
            page.prose(f"{words.capitalize()}: {', '.join(named)}.", 2)
            continue
        page.prose(say(f"{words.capitalize()}:", tone), 2)
        for trial in those:
            page.item(f"{trial.name}: {_in_full(trial, diagnosis)}")


def _in_full(trial: Trial, diagnosis: Diagnosis) -> str:
    """What a trial gave beside what was predicted, and why it came out so.

    The figure of a finding that was not tried stands with its advice, in the middle of the noise.
    """
    gain, why, most = units.measured(trial.speedup, trial.low, trial.high), trial.why, trial.bound
    if trial.outcome is Outcome.NOT_TRIED and not gain:
        most = None if trial.fix in {finding.id for finding in diagnosis.findings} else most
    bound = "" if most is None else f"at most {units.bound(most)} predicted"
    if gain:
        why = came_with(trial, trial.why if trial.outcome in SAYS_WHY else trial.how)
    figures = ", ".join(filter(None, (gain, bound)))
    return "; ".join(filter(None, (figures, why)))


def _trust(diagnosis: Diagnosis, page: Page) -> None:
    """Say why there are no more trials, and how much of their figures could be noise."""
    trying, control = diagnosis.trying, diagnosis.control
    if trying is not None and trying.reason:
        page.prose(f"{trying.reason[0].upper()}{trying.reason[1:].rstrip('.')}.", indent=2)
    if control is not None:
        losses = "" if control.reproducible else " Its losses differ from run to run"
        if losses and control.loss_band is not None:
            losses += f" by up to {units.share(control.loss_band)}"
        if control.reproducible is None:
            losses = " No losses were seen, so they could not be compared"
        page.prose(f"{against_itself(control)}.{losses}{'.' if losses else ''}", indent=2)
    elif any(trial.basis == "steps" and trial.pairs for trial in diagnosis.trials):
        page.prose(NO_CONTROL, indent=2)
    others = None if trying is None else trying.neighbours_cores
    busy = took(others, diagnosis.evidence.machine.cores)
    if busy and any(trial.outcome is Outcome.NO_EFFECT for trial in diagnosis.trials):
        page.prose(f"{busy.capitalize()} when the trials began: {MAY_HAVE_ONE}.", indent=2)


def against_itself(control: Control) -> str:
    """Say how the script meets itself, and so what could be noise."""
    figure = units.measured(control.speedup, control.low, control.high)
    noise = f"gains below {units.share(control.floor)} could be noise"
    return f"The script against itself: {figure}, so {noise}"


def ordered(diagnosis: Diagnosis) -> list[Trial]:
    """Return the trials in the order of the report: by what came of them."""
    order = list(GROUPS.values())
    return sorted(diagnosis.trials, key=lambda trial: order.index(came_to(trial, diagnosis)))


def came_to(trial: Trial, diagnosis: Diagnosis) -> tuple[str, str]:
    """What came of a trial, and its tone."""
    beaten = trial.outcome is Outcome.REDUNDANT and trial.variant
    if beaten and by_fix(diagnosis.trials)[trial.fix].kept:
        return GROUPS[BEATEN]
    if trial.outcome is Outcome.NOT_TRIED and trial.speedup is not None:
        return GROUPS[ALONE]
    noise = trial.outcome is Outcome.NO_EFFECT and (trial.speedup or 1.0) < 1 / OPEN
    return GROUPS[UNDECIDED if noise or trial.undecided else trial.outcome]


def came_with(trial: Trial, why: str, full: bool = True) -> str:
    """Say how the losses of a trial compare, and in full why it came out so and what it costs."""
    return "; ".join(filter(None, (trial.parity, why, once(trial)) if full else (trial.parity,)))


def once(trial: Trial) -> str:
    """Say what a fix costs once, "" where that is nothing."""
    seconds = trial.one_off_s or 0.0
    return f"costs {units.seconds(seconds)} once" if seconds > 0 else ""


def proofs(diagnosis: Diagnosis, page: Page) -> None:
    """Print what each change does, beside the script as it is."""
    trials = by_fix(diagnosis.trials)
    several = len(diagnosis.proofs) > 1
    measured = any(proof.speedup is not None for proof in diagnosis.proofs)
    if measured:
        page.heading("With each change" if several else "With the change")
    for proof in diagnosis.proofs:
        if several:
            page.gap()
            page.prose(exactly(f"{proof.name}: ", STRONG) + say(proof.text), indent=2)
        page.facts(_facts(proof, trials.get(proof.name)))
    told = _common(diagnosis) if measured else []
    if several and told:
        page.gap()
    page.facts(told)


def _facts(proof: Proof, trial: Trial | None) -> list[tuple[str, str]]:
    """What is known of a change, under labels."""
    known = {True: "yes", False: "no", None: "not known"}[proof.same_training]
    memory = [
        f"{where} {units.size(before)} → {units.size(after)}"
        for where, before, after in (
            ("host", proof.memory_before, proof.memory_after),
            ("GPU", proof.device_memory_before, proof.device_memory_after),
        )
        if before is not None and after is not None
    ]
    return [
        ("Speed", "" if proof.speedup is None else _speed(proof, trial)),
        ("Same training", f"{known}: {trial.parity}" if trial and trial.parity else ""),
        ("Memory", ", ".join(memory)),
        ("Start-up", "" if trial is None else once(trial)),
    ]


def _speed(proof: Proof, trial: Trial | None) -> str:
    assert proof.speedup is not None
    text = units.measured(proof.speedup, proof.low, proof.high, " as fast")
    before, after = proof.samples_before, proof.samples_after
    step_s = proof.step_s
    if step_s is not None and before and after:
        rates = units.number(before / step_s), before / step_s * proof.speedup
        text += f", {rates[0]} → {units.rate(rates[1], 'samples')}"
        if before != after:
            text += f" in steps of {after:g} samples, not {before:g}"
    elif step_s is not None:
        text += f", a step {units.seconds(step_s)} → {units.seconds(step_s / proof.speedup)}"
    if trial is not None and trial.pairs:
        of = "plain run" if trial.basis == "whole runs" else "pair"
        text += f"; {units.count(trial.pairs, of)}"
    return text


def _common(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What is the same for all changes: the control, and the whole training."""
    control, whole = diagnosis.control, diagnosis.training
    found = [] if control is None else [("Noise", against_itself(control))]
    stack = diagnosis.stack
    if stack is not None and len(stack.fixes) > 1:
        gain = units.measured(stack.speedup, stack.low, stack.high, " as fast")
        alone = "" if stack.together else ", not measured together: the product of these"
        found.append(("Together", f"{' + '.join(stack.fixes)}: {gain}{alone}"))
    if whole is None:
        return found
    text = whole_training(diagnosis)
    if text and stack is not None and len(diagnosis.proofs) > 1:
        text += f" with {' + '.join(stack.fixes)}"
    if not text and whole.seconds_now is not None:
        about = "about " if whole.basis == "ledger" else ""
        text = f"{about}{units.clock(whole.seconds_now)} as it is"
        text += f"; with the change not known: {whole.reason}" if whole.reason else ""
    return [*found, ("Whole training", text or f"not known: {whole.reason}")]


SECTIONS = (
    Section("trials", CHANGES + 20, trials, True, side="trials"),
    Section("proofs", 50, proofs, side=""),
)
