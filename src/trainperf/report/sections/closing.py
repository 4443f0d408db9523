"""How the report ends: what is missing, what to do next, and what it gives."""

from __future__ import annotations

import shlex

from trainperf.fixes.common.words import at
from trainperf.model import Diagnosis, Outcome, Patch, Stack, by_fix
from trainperf.model import words as units
from trainperf.report import ignored as ignoring
from trainperf.report.document import END, GOOD, QUIET, STRONG, Code, Commands, Page, Section, say
from trainperf.report.level import rejected
from trainperf.report.plain import one_line
from trainperf.report.sections.experiment import apart
from trainperf.report.sections.training import change

MOST = 4
"""How many things that were not measured a short report names."""


def open_points(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was not measured and noted where that leaves the verdict open."""
    if diagnosis.verdict.grade == "settled" and diagnosis.ending.complete:
        return
    _list("Not measured", [f"{one.what}: {one.reason}" for one in diagnosis.not_measured], page)
    del page.blocks[1 + MOST :]
    notes(diagnosis, page)


def not_measured(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was not measured, and why."""
    _list("Not measured", [f"{one.what}: {one.reason}" for one in diagnosis.not_measured], page)


def notes(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was seen that a reader should know."""
    _list("Notes", diagnosis.notes, page)


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
    text = f"No step was traced: {trace.reason}."
    if not trace.reason:
        text = (
            f"A trace of {units.count(trace.steps, 'step')} is in {trace.file}: open it at "
            "ui.perfetto.dev or chrome://tracing."
        )
    page.prose(" ".join(filter(None, (text, trace.note))))


def next_steps(diagnosis: Diagnosis, page: Page) -> None:
    """Print the commands that lead on, and what the patch leaves out."""
    if diagnosis.patch is not None:
        own = apart(diagnosis)  # these have a section
        left_out = (one for one in diagnosis.patch.skipped if one.what not in own)
        _list("Not in the patch", [f"{one.what}: {one.reason}" for one in left_out], page)
    trials = by_fix(diagnosis.trials)
    found = sorted(diagnosis.findings, key=lambda one: rejected(trials.get(one.id)))
    more = [(f"trainperf explain {one.id}", "why it is slow, and when not to") for one in found[:1]]
    _next(diagnosis, more, page)


def short_steps(diagnosis: Diagnosis, page: Page) -> None:
    """Print the commands that make the changes and show the whole report."""
    more = []
    if page.saved:
        whole = f"trainperf show --full {shlex.quote(page.saved)}"
        more = [(whole, "every section of this report")]
    _next(diagnosis, more, page)


def _next(diagnosis: Diagnosis, more: list[tuple[str, str]], page: Page) -> None:
    patch = diagnosis.patch
    if patch is not None and patch.environment:
        page.heading("Part of the changes: set before the script starts")
        page.add(Code(exports(patch), "bash", 2))
    if patch is not None and patch.arguments:
        part = "Part of the changes" if patch.diff or patch.environment else "The change"
        page.heading(f"{part}: run the script as")
        page.add(Code(command_line(diagnosis), "bash", 2))
    then = [*_making(diagnosis, page), *more]
    if longer := _longer(diagnosis):
        then.append((longer, "with time to try what was left out"))
    if then:
        page.heading("Next")
        page.add(Commands(tuple(then)))


def cost(diagnosis: Diagnosis, page: Page) -> None:
    """Print what trainperf itself took."""
    text = f"Diagnosed in {units.seconds(diagnosis.seconds)}"
    if diagnosis.overhead is not None and diagnosis.overhead.share is not None:
        text += f"; the hooks took {units.share(diagnosis.overhead.share)} of each step"
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
    if patch is not None and patch.diff:
        many = edits_in(patch.shown)
        these, them = ("this edit", "it") if many == 1 else (f"these {many} edits", "them")
        if page.saved:
            untried = "" if any(trial.kept for trial in diagnosis.trials) else ", not measured"
            does = f"make {these}{untried}; with --diff, see {them} first"
            commands.append((f"trainperf fix {shlex.quote(page.saved)}", does))
        if page.patch_file:
            commands.append((f"git apply {shlex.quote(page.patch_file)}", "the same, with git"))
    return commands


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


def _longer(diagnosis: Diagnosis) -> str:
    """The command that leaves time to try what was left out for want of it."""
    trying = diagnosis.trying
    if trying is None or trying.budget_needed_s is None or not diagnosis.command:
        return ""
    start = f"trainperf diagnose --budget {units.budget(trying.budget_needed_s)}"
    if diagnosis.running is not None:
        return f"{start} --pid {diagnosis.running.started_by}"
    return f"{start} -- {one_line(shlex.join(diagnosis.command))}"


def answer(diagnosis: Diagnosis) -> tuple[str, str]:
    """The last line of the report and its style; empty where nothing can be said.

    Of changes that were to be proved the first line says it.
    """
    stack, kept = diagnosis.stack, [trial for trial in diagnosis.trials if trial.kept]
    tried = {trial.outcome for trial in diagnosis.trials} - {Outcome.NOT_TRIED}
    whole = change(diagnosis)
    if diagnosis.proofs:
        return "", ""
    if stack is not None and stack.fixes:
        return _apply(max(len(kept), len(stack.fixes))) + _gain(diagnosis, stack), GOOD
    if kept and whole:
        return f"{_apply(len(kept))}{_training(diagnosis)} {whole}", GOOD
    if kept:
        best = max(kept, key=lambda trial: trial.speedup or 0.0)
        figure = units.measured(best.speedup or 1.0, best.low, best.high)
        if len(kept) > 1:
            figure = f"{best.fix} alone gives {figure}, all of them together were not measured"
        return _apply(len(kept)) + figure, GOOD
    if tried:
        return _nothing(diagnosis), STRONG
    if diagnosis.findings:
        trying = diagnosis.trying
        why = "no change was tried" if trying is None or not trying.reason else trying.reason
        return f"The gains named are upper bounds, not measured: {why.rstrip('.')}.", STRONG
    if diagnosis.verdict.healthy and diagnosis.ending.complete and _all_was_seen(diagnosis):
        return "Nothing to change: trainperf knows nothing that would make it faster.", GOOD
    return "", ""


def _all_was_seen(diagnosis: Diagnosis) -> bool:
    """Whether a step was timed, and every rank of a job left its times."""
    job = diagnosis.evidence.parallel_
    if diagnosis.step_s is None:
        return False
    return job is None or not (job.absent or any(one.ending != "measured" for one in job.processes))


def _apply(many: int) -> str:
    return "Apply this change: " if many == 1 else f"Apply these {many} changes: "


def _gain(diagnosis: Diagnosis, stack: Stack) -> str:
    """Say what changes: the whole training beside its steps, where its length is known.

    Else the speed-up, samples per second (or the step), and an epoch.
    """
    text = units.measured(stack.speedup, stack.low, stack.high)
    if whole := change(diagnosis):
        return f"{_training(diagnosis)} {whole}, its steps {text}"
    before, after = stack.before_samples_per_s, stack.after_samples_per_s
    real = diagnosis.evidence.loop.real_tokens
    if real is not None:
        rate = units.rate(real / stack.after_step_s, "real tokens")
        text += f", {units.number(real / stack.before_step_s)} → {rate}"
    elif before is not None and after is not None:
        text += f", {units.number(before)} → {units.rate(after, 'samples')}"
    else:
        times = (units.seconds(one) for one in (stack.before_step_s, stack.after_step_s))
        text += f", a step {' → '.join(times)}"
    if stack.before_epoch_s is not None and stack.after_epoch_s is not None:
        times = (units.clock(one) for one in (stack.before_epoch_s, stack.after_epoch_s))
        text += f", an epoch {' → '.join(times)}"
    return text


def _training(diagnosis: Diagnosis) -> str:
    """Name the training that the figures are of, and what of it is not in them.

    That of one loop where the script has several; what stands between epochs of which none ended.
    """
    whole, loop = diagnosis.training, diagnosis.loop
    length = None if whole is None or whole.basis == "whole runs" else whole.configured
    if whole is None or length is None:
        return "your training as configured"
    known = diagnosis.evidence.between_epochs or any(one.part == "between" for one in whole.items)
    left_out = []
    if length.others:
        left_out.append(f"{units.count(length.others, 'other place')} that may train")
    if (length.epochs or 1) > 1 and not known:
        left_out.append("what stands between its epochs")
    place = f" at {at(loop.where)}" if length.others and loop is not None and loop.where else ""
    name = f"the training{place} as configured" if place else "your training as configured"
    return f"{name} (not counted: {', '.join(left_out)})" if left_out else name


def _nothing(diagnosis: Diagnosis) -> str:
    """Say plainly that trying came to nothing, and how many were left out."""
    outcomes = [trial.outcome for trial in diagnosis.trials]
    left, changing = outcomes.count(Outcome.NOT_TRIED), apart(diagnosis)
    text = "No change that was tried is worth making"
    if changing or Outcome.CHANGES in outcomes:
        text = "No edit tried that leaves the experiment as it is made it faster"
    elif diagnosis.verdict.healthy:
        text = "Nothing to change: nothing that was tried made it faster"
    told = [f"{units.count(left, 'change')} {'was' if left == 1 else 'were'} not tried"]
    return f"{'; '.join([text, *(told if left else ())])}."


def _list(heading: str, items: list[str] | tuple[str, ...], page: Page) -> None:
    if items:
        page.heading(heading)
        for item in items:
            page.item(item)


SECTIONS = (
    Section("not_measured", END, not_measured, open_points, side="not-measured"),
    Section("notes", END + 10, notes, side="notes"),
    Section("ignored", END + 20, ignored, ignored, side="ignored"),
    Section("trace", END + 30, traced, traced),
    Section("next", END + 40, next_steps, short_steps, side="next"),
    Section("spent", END + 60, cost, side=""),
    Section("answer", END + 70, last_line, last_line, side=""),
)
