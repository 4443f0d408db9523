"""What to change: the ranked findings, the practices, and what to do next."""

from __future__ import annotations

import shlex

from rich.cells import cell_len

from trainperf.model import Diagnosis, Ending, Equivalence, Finding, NotTaken, Trial
from trainperf.reporters import _units as units
from trainperf.reporters._paper import Paper
from trainperf.reporters._places import places

EQUIVALENCE = {
    Equivalence.EXACT: "exact: same numbers",
    Equivalence.NUMERICS: "numerics: same maths, other rounding or order",
    Equivalence.SEMANTICS: "changes the experiment",
    Equivalence.ENVIRONMENT: "environment: no change to the source",
}
"""What a fix may change, in words for people."""


def findings(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the findings in their order, or say that there is none."""
    if not diagnosis.findings:
        complete = diagnosis.ending in (Ending.MEASURED, Ending.FINISHED)
        if complete and diagnosis.times.real_s is not None and not diagnosis.verdict.healthy:
            paper.line()
            paper.prose("None of the causes that trainperf knows shows in what was measured.")
        return
    paper.heading("What to change, most promising first")
    trials = {trial.fix: trial for trial in diagnosis.trials}
    for rank, finding in enumerate(diagnosis.findings, start=1):
        paper.line()
        paper.prose(paper.say(finding.title, "bold"), first=paper.raw(f"{rank}. ".rjust(4), "bold"))
        _worth(finding, trials.get(finding.id), paper)
        _body(finding, diagnosis, paper)


def practices(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what concerns time to accuracy rather than the speed of a step."""
    if not diagnosis.practices or diagnosis.verdict.healthy:
        return
    paper.heading("Time to accuracy (not ranked, not priced)")
    for practice in diagnosis.practices:
        paper.line()
        paper.prose(paper.say(practice.title, "bold"), first=paper.raw("  - "))
        _body(practice, diagnosis, paper)


def trials(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what came of every fix that was tried on the script itself."""
    if not diagnosis.trials:
        return
    paper.heading("Tried on the script itself")
    rows = [
        [trial.fix, _measured(trial), "kept" if trial.kept else "not kept", trial.reason]
        for trial in diagnosis.trials
    ]
    paper.table(rows, elastic=(0, 3))


def not_measured(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what was not measured, and why."""
    _list("Not measured", diagnosis.not_measured, paper)


def notes(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what was seen that a reader should know."""
    if diagnosis.notes:
        paper.heading("Notes")
        for note in diagnosis.notes:
            paper.item(note)


def next_steps(diagnosis: Diagnosis, paper: Paper, saved: str, patch_file: str) -> None:
    """Print the commands that lead on, and what the diagnosis took."""
    patch = diagnosis.patch
    if patch is not None:
        _list("Not in the patch", patch.skipped, paper)
    commands: list[tuple[str, str]] = []
    if patch is not None and patch.diff:
        edits = units.count(edits_in(patch.diff), "edit")
        if patch_file:
            apply = f"git apply {shlex.quote(patch_file)}"
            commands.append((apply, f"make {edits}; read the file first"))
        elif saved:
            write = f"trainperf show {shlex.quote(saved)} --patch fix.diff"
            commands.append((write, f"write {edits} as a patch"))
    if saved:
        commands.append((f"trainperf show {shlex.quote(saved)}", "print this report again"))
    if diagnosis.findings:
        first = diagnosis.findings[0].id
        commands.append((f"trainperf explain {first}", "why it is slow, and when not to"))
    if commands:
        paper.heading("Next")
        _commands(commands, paper)
    paper.line()
    paper.line(paper.say(f"Diagnosed in {units.seconds(diagnosis.seconds)}.", "dim"))


def _commands(commands: list[tuple[str, str]], paper: Paper) -> None:
    """Write what each command does beside it, or beneath it where that is too long."""
    rows = [(paper.say(command, "cyan"), what) for command, what in commands]
    widths = [max(cell_len(row[column]) for row in commands) for column in (0, 1)]
    if sum(widths) + 4 <= paper.full:
        paper.table(rows)
        return
    for (command, _), (_, what) in zip(rows, commands, strict=True):
        paper.line(command, 2)
        paper.line(paper.say(what, "dim"), 6)


def edits_in(diff: str) -> int:
    """Count the places a unified diff changes: its hunks."""
    return sum(line.startswith("@@ ") for line in diff.split("\n"))


def _worth(finding: Finding, trial: Trial | None, paper: Paper) -> None:
    if trial is not None and trial.kept and trial.speedup is not None:
        paper.prose(paper.say(f"{_measured(trial)} as fast, measured", "bold green"), indent=4)
        return
    if finding.bound is None:
        text = paper.say("what it can give is not known", "")
    else:
        text = paper.say(f"at most {units.bound(finding.bound)} as fast", "bold green")
    basis = f" ({finding.bound_basis})" if finding.bound_basis else ""
    paper.prose(text + paper.raw(basis), indent=4)


def _body(finding: Finding, diagnosis: Diagnosis, paper: Paper) -> None:
    words, where = EQUIVALENCE[finding.equivalence], places(finding.where, diagnosis.cwd)
    together = f"{where} · {words}" if where else words
    if len(together) + 4 > paper.width:
        paper.prose(paper.say(where, "dim"), indent=4)
        together = words
    paper.prose(paper.say(together, "dim"), indent=4)
    if finding.text:
        paper.line()
        paper.paragraphs(finding.text, indent=4)
    if finding.advice:
        paper.line()
        paper.paragraphs(finding.advice, indent=4)
    if finding.snippet.strip():
        paper.line()
        shell = finding.equivalence is Equivalence.ENVIRONMENT
        paper.code(finding.snippet, "bash" if shell else "python", indent=8)


def _measured(trial: Trial) -> str:
    if trial.speedup is None:
        return "not measured"
    text = units.ratio(trial.speedup)
    if trial.low is not None and trial.high is not None:
        text += f" ({units.ratio(trial.low)} to {units.ratio(trial.high)})"
    return text


def _list(heading: str, items: tuple[NotTaken, ...], paper: Paper) -> None:
    if items:
        paper.heading(heading)
        for item in items:
            paper.item(f"{item.what}: {item.reason}")
