"""The files that `trainperf fix` would write, from which bytes to which. Pure."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trainperf.errors import TrainperfError
from trainperf.fixes import Fix
from trainperf.model import Diagnosis, Finding, Patch
from trainperf.patch.patch import ALREADY, Edits, hash_of
from trainperf.recording.cells import is_configuration, is_notebook
from trainperf.rewrite.diff import shown, unified
from trainperf.rewrite.script import Reader
from trainperf.source.notebooks.notebook import Notebook
from trainperf.source.text import Source


@dataclass(frozen=True)
class Disk:
    """The user's files, as far as planning may know them.

    `read` gives the bytes of a file now. `earlier` has the files that earlier calls wrote, by
    absolute path: their bytes in the run, and the hash of what was written. `applied` are the
    fixes that they hold.
    """

    read: Reader
    earlier: Mapping[str, tuple[bytes, str]] = field(default_factory=dict)
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One file: its absolute path, its name relative to the root of the patch, its bytes.

    `before` is what it holds now, `original` what it held in the run.
    """

    path: str
    name: str
    original: bytes
    before: bytes
    after: bytes

    def diff(self) -> str:
        """Return the change as a unified diff to be read, that of a notebook by cells."""
        if is_configuration(self.name):
            return unified(self.name, self.before.decode(), self.after.decode())
        after = Source(self.name, self.after)
        return shown(self.name, Source(self.name, self.before), after.text)


@dataclass(frozen=True)
class Plan:
    """The files to write: none where `changes` is empty.

    `fixes` are those asked for, whose patch `alone` is; `all_fixes` those that the source holds
    afterwards.
    """

    alone: Patch
    fixes: tuple[str, ...] = ()
    all_fixes: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    def diff(self) -> str:
        """Return all changes as one unified diff, relative to the root of the patch."""
        return "".join(change.diff() for change in self.changes)


def plan(diagnosis: Diagnosis, only: Iterable[str], fixes: Mapping[str, Fix], disk: Disk) -> Plan:
    """Return what is to be written to have the fixes of a saved diagnosis in the source.

    They are those named by `only`, else those of its patch. What an earlier call wrote stays
    there. Raises `TrainperfError` where a fix cannot be written, or where a file is neither what
    it was in the run nor what an earlier call made of it: then nothing at all is to be written.
    """
    patch, findings = diagnosis.patch, every_finding(diagnosis)
    asked = _asked(diagnosis, findings, tuple(only))
    if patch is None or not asked:
        return Plan(Patch("", ()))
    files = _Originals(diagnosis, patch, disk)
    edits = Edits(patch.root, fixes, files)
    order = dict.fromkeys((*patch.findings, *findings))  # so that its bytes come out again
    ids = tuple(id_ for id_ in order if id_ in (*asked, *files.applied))
    after = edits.write([one for one in findings.values() if one.id in ids], ids)
    if files.wrong:
        wrong = ", ".join(f"{name} {what}" for name, what in files.wrong.items())
        raise TrainperfError(
            f"{wrong}: nothing was written",
            hint="diagnose the script as it is now, or bring back what was run",
        )
    for skipped in after.patch.skipped:
        if skipped.what in asked and skipped.reason != ALREADY:
            raise TrainperfError(
                f"{skipped.what} cannot be written: {skipped.reason}",
                hint="choose other fixes with --only; nothing was written",
            )
    same = _edits(after.patch.diff) == _edits(patch.diff)
    if after.patch.findings == patch.findings and not same:
        raise TrainperfError(
            "this trainperf writes the edits in another way than the one that tried them "
            f"({diagnosis.trainperf_version})",
            hint="`trainperf show RUN --patch fix.diff` gives those that were tried",
        )
    alone = edits.write([one for one in findings.values() if one.id in asked], asked).patch
    return Plan(alone, asked, ids, tuple(files.changes(after.contents)))


def _asked(
    diagnosis: Diagnosis, findings: Mapping[str, Finding], only: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the ids of the fixes to write; raises `TrainperfError` for one that has no edit."""
    if not only:
        return diagnosis.patch.findings if diagnosis.patch else ()
    for id_ in (ids := tuple(dict.fromkeys(name.replace("-", "_") for name in only))):
        if id_ not in findings:
            there = ", ".join(difflib.get_close_matches(id_, findings) or findings)
            raise TrainperfError(
                f"this run has no finding {id_}",
                hint=f"it has {there}" if there else "it has no findings at all",
            )
        if not findings[id_].rewritable:
            raise TrainperfError(
                f"{id_} has no edit that trainperf can write",
                hint=f"trainperf explain {id_} says what to do",
            )
    return ids


def every_finding(diagnosis: Diagnosis) -> dict[str, Finding]:
    """Return the findings of a run by their ids, those of the experiment among them."""
    apart = (change.finding for change in diagnosis.experiment_changes)
    return {finding.id: finding for finding in (*diagnosis.findings, *apart)}


def _edits(diff: str) -> list[str]:
    """Return a diff without the names of files, which may have become symbolic links."""
    return [line for line in diff.split("\n") if not line.startswith(("--- ", "+++ "))]


class _Originals:
    """Reads files as they were in the run, whatever an earlier call has made of them.

    `applied` are the fixes that they hold; `wrong` says by name which file is gone, or was changed
    since. A file that is part of no patch, and that no finding names, need not be there: where a
    name comes from is looked for in files that may be.
    """

    def __init__(self, diagnosis: Diagnosis, patch: Patch, disk: Disk) -> None:
        patches = (patch, *(change.patch for change in diagnosis.experiment_changes))
        self._hashes = {file.path: file.sha256 for patch in patches for file in patch.files}
        named = {site.file for one in every_finding(diagnosis).values() for site in one.where}
        self._wanted, self._root, self._disk = named | set(self._hashes), patch.root, disk
        self._read: dict[str, tuple[bytes, bytes]] = {}  # in the run, and now
        self.wrong: dict[str, str] = {}
        self.applied = disk.applied if all(map(self._is_edited, disk.earlier)) else ()

    def __call__(self, path: str) -> bytes:
        """Return the original bytes of a file, its present ones where they are lost."""
        if path not in self._read:
            try:
                now = self._disk.read(path)
            except OSError as error:
                if path in self._wanted:
                    self.wrong[self._name(path)] = f"cannot be read ({error.strerror})"
                raise
            original = self._original(path, now)
            if original is None:
                self.wrong[self._name(path)] = "was changed since the run"
            self._read[path] = (now if original is None else original, now)
        return self._read[path][0]

    def changes(self, contents: Mapping[str, bytes]) -> Iterator[Change]:
        """Yield what is to be written so that files hold these bytes."""
        for path, data in sorted(contents.items()):
            original, now = self._read[path]
            if data != now:
                yield Change(path, self._name(path), original, now, data)

    def _name(self, path: str) -> str:
        return os.path.relpath(os.path.realpath(path), self._root).replace(os.sep, "/")

    def _is_edited(self, path: str) -> bool:
        try:
            return hash_of(path, self._disk.read(path)) == self._disk.earlier[path][1]
        except (OSError, ValueError):
            return False

    def _original(self, path: str, now: bytes) -> bytes | None:
        """What a file held in the run; None where it now holds something of neither."""
        earlier, wanted = self._disk.earlier.get(path), self._hashes.get(path)
        try:
            if earlier is not None and self.applied:
                kept, _ = earlier
                # a notebook may have been run since: its outputs stay
                return Notebook(now).with_text(Notebook(kept).text) if is_notebook(path) else kept
            return now if wanted is None or hash_of(path, now) == wanted else None
        except ValueError:  # no notebook any more, or one with other cells
            return None
