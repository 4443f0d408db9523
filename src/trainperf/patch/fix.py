"""One `trainperf fix`: the fixes of a saved run, into the user's files."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.fixes import by_id
from trainperf.model import Diagnosis, Equivalence
from trainperf.model import by_fix as trials_of
from trainperf.model.words import count
from trainperf.patch.apply import Change, Disk, Plan, every_finding, plan
from trainperf.patch.patch import hash_of
from trainperf.report.plain import one_line
from trainperf.rewrite.script import default_reader


@dataclass(frozen=True)
class _List:
    fixes: tuple[str, ...] = ()
    files: dict[str, tuple[str, str]] = field(default_factory=dict)  # name, hash of what it holds


@dataclass(frozen=True)
class Kept:
    """Copies of files, in a folder that has them under their names in the patch.

    `list_file` says which fixes were written (`applied`), and of which files the copies are.
    """

    folder: Path
    list_file: Path
    applied: _List

    @classmethod
    def of(cls, report: Path) -> Kept:
        """Return what is kept for a report: in its folder, or beside it in one of its own."""
        start = "" if report.name == store.DIAGNOSIS_FILE else f"{report.stem}."
        here = report.absolute().parent
        list_file = here / f"{start}applied.json"
        try:
            found = msgspec.json.decode(list_file.read_bytes(), type=_List)
        except (OSError, ValueError, msgspec.MsgspecError):  # a damaged list is as good as none
            found = _List()
        return cls(here / f"{start}before", list_file, found)

    def files(self) -> dict[str, tuple[bytes, str]]:
        """Return the files that were written, by absolute path, as planning is to know them."""
        copies = ((p, self.folder / name, then) for p, (name, then) in self.applied.files.items())
        return {p: (copy.read_bytes(), then) for p, copy, then in copies if copy.is_file()}

    def keep(self, changes: Iterable[Change], fixes: tuple[str, ...]) -> None:
        """Copy the files that are about to be changed, with modes and times, or raise."""
        held = set(self.applied.fixes) <= set(fixes)  # else what was written was undone
        files = dict(self.applied.files) if held else {}
        try:
            for change in changes:
                copy = self.folder / change.name
                files[change.path] = (change.name, hash_of(change.path, change.after))
                if copy.exists() and copy.read_bytes() == change.original:
                    continue
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                copy.write_bytes(change.original)
                shutil.copystat(change.path, copy)
            store.write_whole(self.list_file, msgspec.json.encode(_List(fixes, files)))
        except OSError as error:
            raise TrainperfError(
                f"the files cannot be kept in {self.folder}: {error.strerror}; nothing was written",
                hint="see that the folder can be written to and has space",
            ) from error


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
    kept = Kept.of(report)
    disk = Disk(default_reader, kept.files(), kept.applied.fixes)
    made = plan(diagnosis, only, by_id(), disk)
    diff = made.diff()
    lines = [*_beside_source(diagnosis, made), *_doubts(diagnosis, made)]
    if not made.fixes:
        skipped = diagnosis.patch.skipped if diagnosis.patch else ()
        why = "; ".join(f"{edit.what}: {edit.reason}" for edit in skipped)
        lines = [f"nothing to write: {why or 'this run kept no edit'}"]
    elif not made.changes and (
        made.alone.diff or not (made.alone.environment or made.alone.arguments)
    ):
        lines = [f"already in the source: {', '.join(made.fixes)}", *lines]
    elif made.changes and not dry:
        kept.keep(made.changes, made.all_fixes)
        replace_all(
            {change.path: change.before for change in made.changes},
            {change.path: change.after for change in made.changes},
        )
        undo = f"cp -a {shlex.quote(str(kept.folder))}/. {shlex.quote(made.alone.root)}/"
        lines = [*_written(made), *lines, f"to undo it: {undo}"]
    return Fixed(diff, tuple(map(one_line, lines)))


def _written(made: Plan) -> Iterator[str]:
    for change in made.changes:
        edits = sum(line.startswith("@@ ") for line in change.diff().split("\n"))
        yield f"{change.name}: {count(edits, 'edit')}"
    yield f"fixes: {', '.join(made.fixes)}"


def _beside_source(diagnosis: Diagnosis, made: Plan) -> Iterator[str]:
    """Say what is to be done beside what is written: variables, options of the command."""
    for name, value in sorted(made.alone.environment.items()):
        yield f"to be set for the script: export {name}={shlex.quote(value)}"
    if made.alone.arguments:
        command = shlex.join((*diagnosis.command, *made.alone.arguments))
        yield f"a change of the command, in no file; run the script as: {command}"


def _doubts(diagnosis: Diagnosis, made: Plan) -> Iterator[str]:
    """Say what speaks against a fix that was asked for by its name."""
    trials, findings = trials_of(diagnosis.trials), every_finding(diagnosis)
    apart = {change.finding.id for change in diagnosis.experiment_changes}
    for id_ in made.fixes:
        if findings[id_].equivalence is Equivalence.SEMANTICS or id_ in apart:
            yield f"{id_} changes the experiment"
        if id_ in apart:
            yield findings[id_].advice
        elif id_ in trials and not trials[id_].kept:
            reason = f" ({trials[id_].reason})" if trials[id_].reason else ""
            yield f"{id_} was not kept by the run: {trials[id_].outcome}{reason}"


def replace_all(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Put `after` in place of files that hold `before`, each as a whole, with its mode and owner.

    Both are by path; symbolic links stay, what they lead to is replaced. Raises `TrainperfError`
    where one of them holds something else or cannot be written; then, or if interrupted, all are
    as before.
    """
    path, written = "", []
    try:
        for path in after:
            if default_reader(path) != before[path]:
                raise TrainperfError(
                    f"{path} was changed just now: nothing was written", hint="try again"
                )
            if not os.stat(path).st_mode & 0o222 or not os.access(path, os.W_OK):
                raise OSError(errno.EACCES, "it is read-only")
        for path, data in after.items():
            written.append(path)
            store.write_whole(Path(path), data)
    except BaseException as error:
        for name in written:
            store.write_whole(Path(name), before[name])
        if not isinstance(error, OSError):
            raise
        raise TrainperfError(
            f"{path} cannot be written: {error.strerror}; all files are as they were",
            hint="see that its folder can be written to and has space",
        ) from error
