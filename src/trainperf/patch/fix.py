"""One `trainperf fix`: the fixes of a saved run, into the user's files."""

from __future__ import annotations

import datetime
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.fixes import by_id
from trainperf.model import Diagnosis, Equivalence, ExperimentChange, Outcome
from trainperf.model import by_fix as trials_of
from trainperf.model.words import count
from trainperf.patch.apply import Change, Disk, Plan, plan
from trainperf.report.plain import one_line
from trainperf.report.sections.experiment import rates
from trainperf.rewrite.script import default_reader


@dataclass(frozen=True)
class _List:
    fixes: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """Copies of files, in a folder that has them under their names in the patch.

    `list_file` says which fixes were written, and of which files the copies are.
    """

    folder: Path
    list_file: Path
    _list: _List

    @classmethod
    def of(cls, report: Path, in_own_folder: bool) -> Kept:
        """Return what is kept for a report: in its folder, or beside it in one of its own."""
        start = "" if in_own_folder else f"{report.stem}."
        here = report.absolute().parent
        list_file = here / f"{start}applied.json"
        try:
            found = msgspec.json.decode(list_file.read_bytes(), type=_List)
        except (OSError, ValueError, msgspec.MsgspecError):  # a damaged list is as good as none
            found = _List()
        return cls(here / f"{start}before", list_file, found)

    def fixes(self) -> tuple[str, ...]:
        """Return the ids of the fixes that were written so far."""
        return self._list.fixes

    def originals(self) -> dict[str, bytes]:
        """Return the bytes of the files as they were, by absolute path."""
        found = {}
        for path, name in self._list.files.items():
            try:
                found[path] = (self.folder / name).read_bytes()
            except OSError:
                continue
        return found

    def keep(self, changes: Iterable[Change], fixes: tuple[str, ...]) -> None:
        """Copy the files that are about to be changed, with their modes and times.

        Raises `TrainperfError` where that cannot be done.
        """
        files = dict(self._list.files)
        try:
            for change in changes:
                copy = self.folder / change.name
                files[change.path] = change.name
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
        replace_all(
            {each.path: each.before for each in made.changes},
            {each.path: each.after for each in made.changes},
        )
        lines = [*_written(made), *lines, *_undo(made, kept)]
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
    what = "trained otherwise in the run" if change.losses_differ else "changes the experiment"
    return f"{change.finding.id} {what}: {next(rates(change))}"


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


def replace_all(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Put `after` in place of files that hold `before`.

    Both are by path; symbolic links stay, what they lead to is replaced. Each file is
    replaced at once by a new one, on disk by then, with its mode, owner and extended
    attributes as far as permitted. Raises `TrainperfError` where one of them holds
    something else or cannot be written; then, or if interrupted, all are as before.
    """
    real = {path: os.path.realpath(path) for path in after}
    for path in after:
        _check(path, real[path])
    with _staged({real[path]: data for path, data in after.items()}) as new:
        for path in after:
            if _read(path) != before[path]:
                raise TrainperfError(
                    f"{path} was changed just now: nothing was written", hint="try again"
                )
        done: list[str] = []
        try:
            for target, temporary in new.items():
                done.append(target)
                os.replace(temporary, target)
        except BaseException as error:
            old = {each: before[path] for path, each in real.items() if each in done}
            with _staged(old) as copies:
                for target, temporary in copies.items():
                    os.replace(temporary, target)
            if isinstance(error, OSError):
                raise _failure(done[-1], error) from error
            raise


def _check(path: str, real: str) -> None:
    """Refuse what is not to be replaced."""
    try:
        found = os.stat(real)
    except OSError as error:
        raise _failure(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise TrainperfError(f"{path} is no ordinary file", hint="nothing was written")
    if not found.st_mode & 0o222 or not os.access(real, os.W_OK):
        raise TrainperfError(
            f"{path} is read-only: nothing was written", hint="make it writable first"
        )


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _failure(path, error) from error


@contextmanager
def _staged(contents: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """Write new files beside those they are for; what is left of them goes in the end."""
    temporary: dict[str, str] = {}
    try:
        for path, data in contents.items():
            try:
                number, temporary[path] = tempfile.mkstemp(".part", ".", os.path.dirname(path))
                _write(number, data, like=path)
            except OSError as error:
                raise _failure(path, error) from error
        yield temporary
    finally:
        for each in temporary.values():
            with suppress(OSError):
                os.unlink(each)


def _write(number: int, data: bytes, like: str) -> None:
    with open(number, "wb") as file:
        found = os.stat(like)
        file.write(data)
        file.flush()
        with suppress(OSError):
            os.fchown(number, found.st_uid, found.st_gid)
        with suppress(OSError):  # access lists among them
            for name in os.listxattr(like):
                os.setxattr(number, name, os.getxattr(like, name))
        os.fchmod(number, stat.S_IMODE(found.st_mode))
        os.fsync(number)


def _failure(path: str, error: OSError) -> TrainperfError:
    return TrainperfError(
        f"{path} cannot be written: {error.strerror}; all files are as they were",
        hint="see that its folder can be written to and has space",
    )
