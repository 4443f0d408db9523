"""Changes that were to be proved: the answers, and what stands behind each."""

from __future__ import annotations

from trainperf.model import Diagnosis, Proof, Trial, by_fix
from trainperf.model import words as units
from trainperf.report.document import STRONG, Page, Section, exactly, say
from trainperf.report.sections.training import change as whole_training
from trainperf.report.sections.trials import against_itself, once


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


SECTIONS = (Section("proofs", 50, proofs, side=""),)
