"""How the report ends: what is missing, what to do next, and what it gives."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from trainperf.fixes.common.words import at
from trainperf.model import Diagnosis, Outcome, Stack, Trial, by_fix
from trainperf.model import words as units
from trainperf.report import ignored as ignoring
from trainperf.report.document import CHANGES, END, GOOD, STRONG, Code, Commands, Page, Section, say
from trainperf.report.level import rejected
from trainperf.report.plain import one_line
from trainperf.report.sections.findings import apart
from trainperf.report.sections.training import change

HELD_UP = 0.25
"""Share of their time for which neighbours kept threads waiting that no report leaves out."""
MOST = 4
"""How many things that were not measured a short report names."""

SMALL = 0.02
"""Below this share of a step nothing of a trace is worth a word."""

HEALTHY = "Nothing to change: trainperf knows nothing that would make it faster."


def predicted(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was read of a profiler's trace, what it says of the GPU, and how to try it."""
    read = diagnosis.read_from
    if read is None:
        return
    page.heading("Predicted from a trace, not tried")
    page.prose(
        f"{units.count(read.steps, 'step')} of {read.file} were read; its profiler made them "
        "longer than they are. To have the changes tried: trainperf diagnose SCRIPT",
        indent=2,
    )
    evidence = diagnosis.evidence
    busy, real, trace = evidence.times.device_s, evidence.times.real, evidence.torch.trace
    if busy is not None:
        text = f"The GPU is busy for {units.share(min(1.0, busy / real))} of each step"
        if trace is not None and trace.unqueued_s and trace.unqueued_s > SMALL * real:
            idle = units.seconds(trace.unqueued_s)
            text += f"; for {idle} of it the host had not handed over its next kernel"
        page.item(f"{text}.")
    if read.pageable_s > SMALL * real:
        page.item(
            f"{units.seconds(read.pageable_s)} of each step go into copies from memory that is not "
            "pinned: `pin_memory=True` in the loader, `non_blocking=True` in `.to(device)`."
        )


def _is_open(diagnosis: Diagnosis) -> bool:
    """Whether what was not measured leaves the verdict open."""
    return diagnosis.verdict.grade != "settled" or not diagnosis.ending.complete


def _is_noted(diagnosis: Diagnosis) -> bool:
    """Whether notes belong into a short report: neighbours held the steps up, as one of them says.

    Or the verdict is open.
    """
    uses = (use for use in diagnosis.evidence.use if use.phase == "real")
    return _is_open(diagnosis) or any((use.waited or 0.0) >= HELD_UP for use in uses)


def not_measured(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was not measured, and why."""
    missing = [f"{lack.what}: {lack.reason}" for lack in diagnosis.not_measured]
    page.items("Not measured", missing if page.full else missing[:MOST])


def notes(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was seen that a reader should know."""
    page.items("Notes", diagnosis.notes)


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
    """Print what the patch has besides edits, and the commands that lead on."""
    patch = diagnosis.patch
    if page.full and patch is not None:
        own = apart(diagnosis)  # these have a section
        left_out = [skip for skip in patch.skipped if skip.what not in own]
        page.items("Not in the patch", [f"{skip.what}: {skip.reason}" for skip in left_out])
    if patch is not None and patch.environment:
        page.heading("Part of the changes: set before the script starts")
        pairs = [(one_line(name), one_line(text)) for name, text in patch.environment.items()]
        exports = "\n".join(f"export {name}={shlex.quote(text)}" for name, text in pairs)
        page.add(Code(exports, "bash", 2))
    if patch is not None and patch.arguments:
        part = "Part of the changes" if patch.diff or patch.environment else "The change"
        page.heading(f"{part}: run the script as")
        words = (*diagnosis.command, *patch.arguments)
        page.add(Code(one_line(shlex.join(words)), "bash", 2))
    if commands := tuple(_commands(diagnosis, page)):
        page.heading("Next")
        page.add(Commands(commands))


def _commands(diagnosis: Diagnosis, page: Page) -> Iterator[tuple[str, str]]:
    """The commands that make the edits, prove one by hand, tell more, and try what was left out."""
    patch, trials, trying = diagnosis.patch, by_fix(diagnosis.trials), diagnosis.trying
    saved, command = shlex.quote(page.saved), one_line(shlex.join(diagnosis.command))
    if patch is not None and patch.diff and page.saved:
        untried = "" if any(trial.kept for trial in diagnosis.trials) else ", not measured"
        edits = units.count(edits_in(patch.shown), "edit")
        yield f"trainperf fix {saved}", f"make {edits}{untried}; --diff shows them"
    if patch is not None and patch.diff and page.patch_file:
        yield f"git apply {shlex.quote(page.patch_file)}", "the same, with git"
    tried = {trial.fix for trial in diagnosis.trials if trial.outcome is not Outcome.NOT_TRIED}
    by_hand = (one for one in diagnosis.findings if one.where and not one.rewritable)
    if command and any(finding.id not in tried for finding in by_hand):
        yield f"trainperf try --diff change.diff -- {command}", "measure a change made by hand"
    if page.full and diagnosis.findings:
        first = min(diagnosis.findings, key=lambda finding: rejected(trials.get(finding.id)))
        yield f"trainperf explain {first.id}", "why it is slow, and when not to"
    elif page.saved and not page.full:
        yield f"trainperf show --full {saved}", "every section of this report"
    if command and trying is not None and trying.budget_needed_s is not None:
        what = f"-- {command}"
        if diagnosis.running is not None:
            what = f"--pid {diagnosis.running.started_by}"
        longer = f"trainperf diagnose --budget {units.budget(trying.budget_needed_s)}"
        yield f"{longer} {what}", "with time to try what was left out"


def edits_in(diff: str) -> int:
    """Count the places a unified diff changes: its hunks."""
    return sum(line.startswith("@@ ") for line in diff.split("\n"))


def last_line(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the reader gets by making the changes, or that there is nothing to make.

    Of changes that were to be proved the first line says it.
    """
    text, style = ("", "") if diagnosis.proofs else _answer(diagnosis)
    if text:
        page.gap()
        page.prose(say(text, style))


def _answer(diagnosis: Diagnosis) -> tuple[str, str]:
    """The last line and its style; empty where nothing can be said."""
    kept = [trial for trial in diagnosis.trials if trial.kept]
    if kept or (diagnosis.stack is not None and diagnosis.stack.fixes):
        return _gain(diagnosis, diagnosis.stack, kept), GOOD
    if {trial.outcome for trial in diagnosis.trials} - {Outcome.NOT_TRIED}:
        return _nothing(diagnosis), STRONG
    if diagnosis.findings:
        trying = diagnosis.trying
        why = "no change was tried" if trying is None or not trying.reason else trying.reason
        return f"The gains named are upper bounds, not measured: {why.rstrip('.')}.", STRONG
    job = diagnosis.evidence.parallel_
    seen = job is None or not (
        job.absent or any(rank.ending != "measured" for rank in job.processes)
    )
    timed = diagnosis.ending.complete and diagnosis.step_s is not None
    return (HEALTHY, GOOD) if diagnosis.verdict.healthy and timed and seen else ("", "")


def _gain(diagnosis: Diagnosis, stack: Stack | None, kept: Sequence[Trial]) -> str:
    """Say what the kept changes give: of the whole training where its length is known."""
    fixes = () if stack is None else stack.fixes
    many, whole = max(len(kept), len(fixes)), change(diagnosis)
    text, told = "", f"{_training(diagnosis)} {whole}" if whole else ""
    if stack is not None and fixes:
        text = units.measured(stack.speedup, stack.low, stack.high)
        text += "" if stack.together or len(fixes) < 2 else ", not measured together"
        times = " → ".join(map(units.seconds, (stack.before_step_s, stack.after_step_s)))
        text = f", its steps {text}" if told else f"{text}, a step {times}"
    elif not told:
        best = max(kept, key=lambda trial: trial.speedup or 0.0)
        text = units.measured(best.speedup or 1.0, best.low, best.high)
        if many > 1:
            text = f"{best.fix} alone gives {text}, all of them together were not measured"
    return f"Apply {'this change' if many == 1 else f'these {many} changes'}: {told}{text}"


def _training(diagnosis: Diagnosis) -> str:
    """Name the training that the figures are of, and what of it is not in them.

    That of one loop where the script has several; what stands between epochs of which none ended.
    """
    whole, loop = diagnosis.training, diagnosis.loop
    length = None if whole is None or whole.basis == "whole runs" else whole.configured
    name = "the whole training"
    if whole is None or length is None:
        return name
    left_out = []
    if length.others:
        left_out.append(f"{units.count(length.others, 'other place')} that may train")
        if loop is not None and loop.where:
            name = f"the training at {at(loop.where)}"
    known = diagnosis.evidence.between_epochs or any(one.part == "between" for one in whole.items)
    if (length.epochs or 1) > 1 and not known:
        left_out.append("what stands between its epochs")
    return f"{name} (not counted: {', '.join(left_out)})" if left_out else name


def _nothing(diagnosis: Diagnosis) -> str:
    """Say plainly that trying came to nothing, and how many were left out."""
    trials, changes = diagnosis.trials, diagnosis.experiment_changes
    left = [trial for trial in trials if trial.outcome is Outcome.NOT_TRIED]
    surely = "surely " if any(trial.undecided for trial in trials) else ""
    text = f"No change that was tried is {surely}worth making"
    if changes or any(trial.outcome is Outcome.CHANGES for trial in trials):
        text = f"No edit tried that leaves the experiment as it is made it {surely}faster"
    elif diagnosis.verdict.healthy:
        text = f"Nothing to change: nothing that was tried made it {surely}faster"
    alone = [trial for trial in left if (trial.low or 0.0) > 1]
    if alone:
        first = max(alone, key=lambda trial: trial.speedup or 0.0)
        gave = units.measured(first.speedup, first.low, first.high)
        text = f"{first.fix} gave {gave}, but is not kept: {first.reason}"
    best = [(change.ways[0].speedup or 0.0, change.finding.id) for change in changes]
    if best:
        speedup, id_ = max(best)
        text += f"; {id_}, which changes the experiment, gave {units.ratio(speedup)}"
    untried = sum(trial.speedup is None for trial in left)
    more = f"; {units.count(untried, 'change')} {'was' if untried == 1 else 'were'} not tried"
    return f"{text}{more if untried else ''}."


SECTIONS = (
    Section("predicted", CHANGES + 70, predicted, True),
    Section("not_measured", END, not_measured, _is_open, side="not-measured"),
    Section("notes", END + 10, notes, _is_noted, side="notes"),
    Section("ignored", END + 20, ignored, True, side="ignored"),
    Section("trace", END + 30, traced, True),
    Section("next", END + 40, next_steps, True, side="next"),
    Section("answer", END + 70, last_line, True, side=""),
)
