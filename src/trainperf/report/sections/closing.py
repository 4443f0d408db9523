"""How the report ends: what is missing, what to do next, and what it gives."""

from __future__ import annotations

import math
import shlex

from trainperf.fixes.common.words import at
from trainperf.model import Diagnosis, NotTaken, Outcome, Patch, Stack, by_fix
from trainperf.model import words as units
from trainperf.report import ignored as ignoring
from trainperf.report.document import END, GOOD, QUIET, STRONG, Code, Commands, Page, Section, say
from trainperf.report.level import rejected
from trainperf.report.plain import one_line
from trainperf.report.sections.experiment import apart
from trainperf.report.sections.findings import HELD_UP
from trainperf.report.sections.training import change

FULL = "every section of this report"
"""The rest of a short report, which `--full` prints."""

BETWEEN = "what stands between its epochs"
"""No part of the figures of a training of which no epoch ended while it was observed."""

MOST = 4
"""How many things that were not measured a short report names."""


def open_points(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was not measured and noted where that leaves the verdict open."""
    if diagnosis.verdict.grade == "settled" and diagnosis.ending.complete:
        return
    _list("Not measured", diagnosis.not_measured[:MOST], page)
    if (more := len(diagnosis.not_measured) - MOST) > 0:
        page.prose(f"and {units.count(more, 'other')}", indent=2)
    notes(diagnosis, page)


def not_measured(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was not measured, and why."""
    _list("Not measured", diagnosis.not_measured, page)


def notes(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was seen that a reader should know."""
    if diagnosis.notes:
        page.heading("Notes")
        for note in diagnosis.notes:
            page.item(note)


def ignored(diagnosis: Diagnosis, page: Page) -> None:
    """Print in one line what comments in the source leave out."""
    if told := ignoring.said(diagnosis.ignored, diagnosis.cwd):
        page.gap()
        page.prose(told)


def traced(diagnosis: Diagnosis, page: Page) -> None:
    """Print where the trace is and what opens it, or why there is none."""
    trace = diagnosis.trace
    if trace is None:
        return
    page.gap()
    if trace.reason:
        page.prose(f"No step was traced: {trace.reason}.")
        return
    page.prose(
        f"A trace of {units.count(trace.steps, 'step')} is in {trace.file}: open it at "
        "ui.perfetto.dev or chrome://tracing. Tracing slows steps; no figure here is from them."
    )
    if trace.note:
        page.item(trace.note)


def next_steps(diagnosis: Diagnosis, page: Page) -> None:
    """Print the commands that lead on."""
    patch = diagnosis.patch
    if patch is not None:
        own = apart(diagnosis)  # these have a section
        left_out = tuple(one for one in patch.skipped if one.what not in own)
        _list("Not in the patch", left_out, page)
        _beside_source(diagnosis, patch, page)
    then = _making(diagnosis, page)
    if page.saved:
        then.append((f"trainperf show {shlex.quote(page.saved)}", "print this report again"))
    if first := _explained(diagnosis):
        then.append((f"trainperf explain {first}", "why it is slow, and when not to"))
    _next(diagnosis, then, page)


def short_steps(diagnosis: Diagnosis, page: Page) -> None:
    """Print the commands that make the changes and show the whole report."""
    patch = diagnosis.patch
    if patch is not None:
        _beside_source(diagnosis, patch, page)
    then = _making(diagnosis, page)
    if page.saved:
        then.append((f"trainperf show --full {shlex.quote(page.saved)}", FULL))
    _next(diagnosis, then, page)


def _next(diagnosis: Diagnosis, then: list[tuple[str, str]], page: Page) -> None:
    if longer := _longer(diagnosis):
        then.append((longer, "with time to try what was left out"))
    if then:
        page.heading("Next")
        page.add(Commands(tuple(then)))


def cost(diagnosis: Diagnosis, page: Page) -> None:
    """Print what trainperf itself took."""
    overhead = diagnosis.overhead
    text = f"Diagnosed in {units.seconds(diagnosis.seconds)}"
    if overhead is not None:
        text = f"trainperf: {units.duration(overhead.observing_s)} observing"
        if overhead.trying_s > 0:
            text += f", {units.duration(overhead.trying_s)} trying"
        if overhead.per_step_s is not None:
            part = "" if overhead.share is None else f" ({units.share(overhead.share)})"
            text += f"; its hooks took {units.seconds(overhead.per_step_s)} of each step{part}"
    page.gap()
    page.prose(say(f"{text}.", QUIET))


def last_line(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the reader gets by making the changes, or that there is nothing to make."""
    text, style = answer(diagnosis)
    if text:
        page.gap()
        page.prose(say(text, style))


def edits_in(diff: str) -> int:
    """Count the places a unified diff changes: its hunks."""
    return sum(line.startswith("@@ ") for line in diff.split("\n"))


def _making(diagnosis: Diagnosis, page: Page) -> list[tuple[str, str]]:
    """The commands that make the edits of the patch."""
    commands: list[tuple[str, str]] = []
    patch = diagnosis.patch
    if patch is None or not patch.diff:
        return commands
    many = edits_in(patch.shown)
    edits = units.count(many, "edit")
    if page.saved:
        fix = f"trainperf fix {shlex.quote(page.saved)}"
        untried = "" if any(trial.kept for trial in diagnosis.trials) else ", not measured"
        these, them = ("this edit", "it") if many == 1 else (f"these {edits}", "them")
        commands.append((fix, f"make {these}{untried}; with --diff, see {them} first"))
    if page.patch_file:
        file = shlex.quote(page.patch_file)
        commands.append((f"git apply {file}", f"the same {edits}, with git"))
    return commands


def _beside_source(diagnosis: Diagnosis, patch: Patch, page: Page) -> None:
    """Print what the changes need beside edits: variables, and options of the command."""
    if patch.environment:
        page.heading("Part of the changes: set before the script starts")
        page.add(Code(exports(patch), "bash", 2))
    if patch.arguments:
        part = "Part of the changes" if patch.diff or patch.environment else "The change"
        page.heading(f"{part}: run the script as")
        page.add(Code(command_line(diagnosis), "bash", 2))


def command_line(diagnosis: Diagnosis) -> str:
    """Return the command with the options that the patch puts at its end."""
    arguments = diagnosis.patch.arguments if diagnosis.patch is not None else ()
    return one_line(shlex.join((*diagnosis.command, *arguments)))


def exports(patch: Patch) -> str:
    """Return the commands that set the environment of a patch."""
    return "\n".join(
        f"export {one_line(name)}={shlex.quote(one_line(value))}"
        for name, value in patch.environment.items()
    )


def _explained(diagnosis: Diagnosis) -> str:
    """The finding to read more of: the first that was not rejected, else the first."""
    trials = by_fix(diagnosis.trials)
    ids = [finding.id for finding in diagnosis.findings]
    return next((one for one in ids if not rejected(trials.get(one))), ids[0] if ids else "")


def _longer(diagnosis: Diagnosis) -> str:
    """The command that leaves time to try what was left out for want of it."""
    trying, command = diagnosis.trying, diagnosis.command
    if trying is None or trying.budget_needed_s is None or not command:
        return ""
    start = f"trainperf diagnose --budget {units.budget(trying.budget_needed_s)} "
    if diagnosis.running is not None:
        return f"{start}--pid {diagnosis.running.started_by}"
    python = command[0].rpartition("/")[2].startswith("python")
    script = len(command) > 1 and (command[1] == "-m" or not command[1].startswith("-"))
    if python and script:
        return start + one_line(shlex.join(command[1:]))
    return f"{start}-- {one_line(shlex.join(command))}"


def answer(diagnosis: Diagnosis) -> tuple[str, str]:
    """The last line of the report and its style; empty where nothing can be said.

    Of changes that were to be proved the first line says it.
    """
    if diagnosis.proofs:
        return "", ""
    stack, kept = diagnosis.stack, [trial for trial in diagnosis.trials if trial.kept]
    if stack is not None and stack.fixes:
        return _apply(max(len(kept), len(stack.fixes))) + _gain(diagnosis, stack), GOOD
    whole = change(diagnosis)
    if kept and whole:
        return f"{_apply(len(kept))}{_training(diagnosis)} {whole}", GOOD
    if kept:
        best = max(kept, key=lambda trial: trial.speedup or 0.0)
        if best.speedup is None:
            return "", ""
        figure = units.measured(best.speedup, best.low, best.high)
        if len(kept) == 1:
            return ", ".join(filter(None, (_apply(1) + figure, best.note))), GOOD
        alone = f"{best.fix} alone gives {figure}, all of them together were not measured"
        return _apply(len(kept)) + alone, GOOD
    tried = {trial.outcome for trial in diagnosis.trials} - {Outcome.NOT_TRIED}
    if Outcome.CHANGES in tried:
        return _apart(diagnosis), STRONG
    if tried:
        return _nothing(tried, diagnosis), STRONG
    if diagnosis.findings:
        return _bounds_only(diagnosis), STRONG
    if diagnosis.verdict.healthy and diagnosis.ending.complete and _all_was_seen(diagnosis):
        return "Nothing to change: trainperf knows nothing that would make it faster.", GOOD
    return "", ""


def _all_was_seen(diagnosis: Diagnosis) -> bool:
    """Whether a step was timed, and every rank of a job left its times."""
    job = diagnosis.evidence.parallel_
    if diagnosis.step_s is None:
        return False
    return job is None or not (job.absent or any(one.ended != "measured" for one in job.processes))


def _apply(many: int) -> str:
    return "Apply this change: " if many == 1 else f"Apply these {many} changes: "


def _gain(diagnosis: Diagnosis, stack: Stack) -> str:
    """Say what changes: the whole training beside its steps, where its length is known.

    Else the speed-up, samples per second (or the step), an epoch, and from when on it pays.
    """
    text = units.measured(stack.speedup, stack.low, stack.high)
    whole = change(diagnosis)
    if whole:
        return f"{_training(diagnosis)} {whole}, its steps {text}"
    before, after = stack.before_samples_per_s, stack.after_samples_per_s
    real = None if diagnosis.loop is None else diagnosis.loop.real_tokens
    if real is not None:
        rates = units.number(real / stack.before_step_s), real / stack.after_step_s
        text += f", {rates[0]} → {units.rate(rates[1], 'real tokens')}"
    elif before is not None and after is not None:
        text += f", {units.number(before)} → {units.rate(after, 'samples')}"
    else:
        times = (units.seconds(one) for one in (stack.before_step_s, stack.after_step_s))
        text += f", a step {' → '.join(times)}"
    if stack.before_epoch_s is not None and stack.after_epoch_s is not None:
        times = (units.duration(one) for one in (stack.before_epoch_s, stack.after_epoch_s))
        text += f", an epoch {' → '.join(times)}"
    return text + _pays(stack)


def _training(diagnosis: Diagnosis) -> str:
    """Name the training that the figures are of, and what of it is not in them.

    That of one loop where the script has several; what stands between epochs of which none ended.
    """
    whole = diagnosis.training
    length = None if whole is None or whole.basis == "whole runs" else whole.configured
    if whole is None or length is None:
        return "your training as configured"
    known = diagnosis.evidence.between_epochs or any(one.part == "between" for one in whole.items)
    unseen = (length.epochs or 1) > 1 and not known
    if not length.others:
        left_out = f" ({BETWEEN} not counted)" if unseen else ""
        return f"your training as configured{left_out}"
    place = f" at {at(diagnosis.loop.where)}" if diagnosis.loop and diagnosis.loop.where else ""
    others = "another place that trains is" if length.others == 1 else "other places that train are"
    left_out = f", nor {BETWEEN}" if unseen else ""
    return f"the training{place} as configured ({others} not counted{left_out})"


def _pays(stack: Stack) -> str:
    """From which length on the changes pay, where they cost something once."""
    saved = stack.before_step_s - stack.after_step_s
    if not stack.once_seconds or stack.once_seconds < 0 or saved <= 0:
        return ""
    return f"; it pays from {math.ceil(stack.once_seconds / saved):,} steps on"


def _apart(diagnosis: Diagnosis) -> str:
    """Say that no other change was kept than those that are another experiment; no figure."""
    many = len({one.fix for one in diagnosis.trials if one.outcome is Outcome.CHANGES})
    others = "one change that alters it did" if many == 1 else f"{many} changes that alter it did"
    return f"No edit tried that leaves the experiment as it is made it faster; {others}."


def _nothing(tried: set[Outcome], diagnosis: Diagnosis) -> str:
    """Say plainly that trying came to nothing, and how many were left out."""
    became = []
    if any(trial.undecided for trial in diagnosis.trials):
        became.append("could not be told from noise")
    if tried & {Outcome.NO_EFFECT, Outcome.SLOWER, Outcome.REDUNDANT}:
        became.append("made it no faster")
    if Outcome.LOSES in tried:
        became.append("does not pay in a training of this length")
    if Outcome.LOSSES_DIFFER in tried:
        became.append("changed its losses")
    if Outcome.FAILED in tried:
        became.append("failed")
    left = sum(trial.outcome is Outcome.NOT_TRIED for trial in diagnosis.trials)
    none = "No change that was tried is worth making" if left else "No change is worth making"
    text = f"{none}: {'it' if left else 'what was tried'} {' or '.join(became)}."
    if became == ["made it no faster"]:
        text = f"{none}: nothing {'' if left else 'that was tried '}made it faster."
        if diagnosis.verdict.healthy:
            text = "Nothing to change: nothing that was tried made it faster. It is well as it is."
    if _advice_left(diagnosis):
        text = "None of the edits tried is worth making. What else is advised was not tried."
    elif not diagnosis.findings and diagnosis.verdict.bottleneck in HELD_UP:
        text = "No edit that was tried made it faster; what holds it up is said at the top."
    were = "was" if left == 1 else "were"
    return f"{text} {units.count(left, 'change')} {were} not tried." if left else text


def _advice_left(diagnosis: Diagnosis) -> bool:
    """Whether a finding was not tried in any way; a job's may have no trial at all."""
    tried = {one.fix for one in diagnosis.trials if one.outcome is not Outcome.NOT_TRIED}
    left = {one.fix for one in diagnosis.trials} - tried
    return any(
        one.id in left or (diagnosis.evidence.parallel_ is not None and one.id not in tried)
        for one in diagnosis.findings
    )


def _bounds_only(diagnosis: Diagnosis) -> str:
    trying = diagnosis.trying
    why = "no change was tried" if trying is None or not trying.reason else trying.reason
    what = "The gains named are upper bounds, not measured"
    if all(finding.bound is None for finding in diagnosis.findings):
        what = "The changes named were not measured"
    return f"{what}: {why.rstrip('.')}."


def _list(heading: str, items: tuple[NotTaken, ...], page: Page) -> None:
    if items:
        page.heading(heading)
        for item in items:
            page.item(f"{item.what}: {item.reason}")


SECTIONS = (
    Section("not_measured", END, not_measured, open_points, side="not-measured"),
    Section("notes", END + 10, notes, side="notes"),
    Section("ignored", END + 20, ignored, ignored, side="ignored"),
    Section("trace", END + 30, traced, traced),
    Section("next", END + 40, next_steps, short_steps, side="next"),
    Section("spent", END + 60, cost, side=""),
    Section("answer", END + 70, last_line, last_line, side=""),
)
