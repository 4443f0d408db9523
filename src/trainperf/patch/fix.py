"""One `trainperf fix`: the fixes of a saved run, into the user's files."""

from __future__ import annotations

import datetime
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainperf import store
from trainperf.fixes import by_id
from trainperf.model import Diagnosis, Equivalence, ExperimentChange, Outcome
from trainperf.model import by_fix as trials_of
from trainperf.model.words import count
from trainperf.patch.apply import Disk, Plan, plan
from trainperf.patch.files import replace_all
from trainperf.patch.kept import Kept
from trainperf.report.plain import one_line
from trainperf.report.sections.experiment import CHANGED, rates
from trainperf.rewrite.script import default_reader


@dataclass(frozen=True)
class Fixed:
    """The result of a fix: `diff` is the change, `lines` are told to the user."""

    diff: str
    lines: tuple[str, ...]


def fix(report: Path, only: tuple[str, ...], dry: bool) -> Fixed:
    """Write the fixes of the diagnosis saved as `report`; with `dry`, only say what.

    `only` are the ids of those to write, else it is all of its patch. The files as they
    were are kept beside the report first. Raises `TrainperfError`, and writes nothing,
    where one of the files is not what it was in the run.
    """
    diagnosis = store.load(report)
    kept = Kept.of(report, report.name == store.DIAGNOSIS_FILE)
    disk = Disk(default_reader, _untouched(diagnosis), kept.originals(), kept.fixes())
    made = plan(diagnosis, only, by_id(), disk)
    if not made.fixes:
        return _told("", [_nothing(diagnosis)])
    lines = [*_beside_source(diagnosis, made), *_doubts(diagnosis, made)]
    if not made.changes:
        if made.in_source or not (made.environment or made.arguments):
            lines = [f"already in the source: {', '.join(made.fixes)}", *lines]
        return _told("", lines)
    diff = made.diff()
    if not dry:
        kept.keep(made.changes, made.all_fixes)
        notes = replace_all(
            {each.path: each.before for each in made.changes},
            {each.path: each.after for each in made.changes},
        )
        lines = [*_written(made), *notes, *lines, *_undo(made, kept)]
    return _told(diff, lines)


def _told(diff: str, lines: list[str]) -> Fixed:
    return Fixed(diff, tuple(one_line(each) for each in lines))


def _nothing(diagnosis: Diagnosis) -> str:
    skipped = diagnosis.patch.skipped if diagnosis.patch else ()
    if not skipped:
        tried = sum(each.outcome is not Outcome.NOT_TRIED for each in diagnosis.trials)
        if tried:
            return f"nothing to write: of {count(tried, 'change')} tried none was kept"
        return "nothing to write: no fix of this run is an edit"
    return "nothing to write: " + "; ".join(f"{each.what}: {each.reason}" for each in skipped)


def _written(made: Plan) -> Iterator[str]:
    for change in made.changes:
        edits = sum(line.startswith("@@ ") for line in change.diff().split("\n"))
        yield f"{change.name}: {edits} {'edit' if edits == 1 else 'edits'}"
    yield f"fixes: {', '.join(made.fixes)}"


def _beside_source(diagnosis: Diagnosis, made: Plan) -> Iterator[str]:
    """Say what is to be done beside what is written: variables, options of the command."""
    for name, value in sorted(made.environment.items()):
        yield f"to be set for the script: export {name}={shlex.quote(value)}"
    if made.arguments:
        command = shlex.join((*diagnosis.command, *made.arguments))
        yield f"a change of the command, in no file; run the script as: {command}"


def _doubts(diagnosis: Diagnosis, made: Plan) -> Iterator[str]:
    """Say what speaks against a fix that was asked for by its name."""
    found = {each.id: each for each in (*diagnosis.findings, *diagnosis.practices)}
    trials = trials_of(diagnosis.trials)
    apart = {each.finding.id: each for each in diagnosis.experiment_changes}
    for id_ in made.fixes:
        if id_ in apart:
            yield _measured(apart[id_])
            yield apart[id_].finding.advice
            continue
        if id_ in found and found[id_].equivalence is Equivalence.SEMANTICS:
            yield f"{id_} changes the experiment"
        if id_ in trials and not trials[id_].kept:
            reason = f" ({trials[id_].reason})" if trials[id_].reason else ""
            yield f"{id_} was not kept by the run: {trials[id_].outcome}{reason}"


def _measured(change: ExperimentChange) -> str:
    """Say of a change that makes another experiment what the run measured of it."""
    (_, before, _), (name, after, figure), *_ = rates(change)
    way = "" if name == CHANGED else f" ({name})"
    what = "trained otherwise in the run" if change.losses_differ else "changes the experiment"
    return f"{change.finding.id}{way} {what}: {before} → {after}, {figure}"


def _undo(made: Plan, kept: Kept) -> Iterator[str]:
    root = Path(made.root)
    here = shlex.quote(made.root)
    if any((folder / ".git").exists() for folder in (root, *root.parents)):
        yield f"to see the change: git -C {here} diff"
    yield f"to undo it: cp -a {shlex.quote(str(kept.folder))}/. {here}/"


def _untouched(diagnosis: Diagnosis) -> Callable[[str], bool]:
    """Say of files without a recorded hash whether they are older than the diagnosis."""
    try:
        # `created` is to the second
        made = datetime.datetime.fromisoformat(diagnosis.created).timestamp() + 1
    except ValueError:
        return lambda path: False
    return lambda path: os.stat(path).st_mtime <= made
