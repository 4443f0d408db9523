"""The files that `trainperf fix` would write, from which bytes to which. Pure."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trainperf.errors import TrainperfError
from trainperf.fixes import Fix
from trainperf.model import Diagnosis, Finding, Patch
from trainperf.patch.patch import ALREADY, Edits, Written, hash_of
from trainperf.recording.cells import is_configuration, is_notebook
from trainperf.rewrite.diff import shown, unified
from trainperf.rewrite.script import Reader
from trainperf.source.notebooks.notebook import Notebook
from trainperf.source.text import Source


@dataclass(frozen=True)
class Disk:
    """The user's files, as far as planning may know them.

    `read` gives the bytes of a file now; `untouched` says whether it was last written
    to before the diagnosis was made. `kept` has the original bytes of files that were
    written to by an earlier call, by absolute path, and `applied` the fixes it wrote.
    """

    read: Reader
    untouched: Callable[[str], bool]
    kept: Mapping[str, bytes] = field(default_factory=dict)
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

    `fixes` are those asked for, `all_fixes` those that the source holds afterwards;
    `in_source` says whether any of them is an edit, rather than a variable to be set or an option
    (`arguments`) that the command is to have.
    """

    root: str
    fixes: tuple[str, ...] = ()
    all_fixes: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    in_source: bool = False

    def diff(self) -> str:
        """Return all changes as one unified diff, relative to `root`."""
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
        return Plan(patch.root if patch else "")
    files = _Originals(diagnosis, patch, disk)
    edits = Edits(patch.root, fixes, files)

    def written(*ids: str) -> Written:
        return edits.write(tuple(findings.values()), ids)

    order = dict.fromkeys((*patch.findings, *findings))  # so that its bytes come out again
    for there in ((), disk.applied):
        ids = tuple(id_ for id_ in order if id_ in (*asked, *there))
        after, before = written(*ids), written(*there)
        if not (wrong := files.wrong(before.contents)):
            break
    else:
        raise TrainperfError(
            f"{', '.join(f'{name} {what}' for name, what in wrong.items())}: nothing was written",
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
    alone = written(*asked)
    return Plan(
        patch.root,
        asked,
        ids,
        tuple(files.changes(after.contents)),
        environment=alone.patch.environment,
        arguments=alone.patch.arguments,
        in_source=bool(alone.contents),
    )


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


CHANGED = "was changed since the run"


class _Originals:
    """Reads files as they were in the run, whatever an earlier call has made of them.

    A file that is part of no patch, and that no finding names, need not be there: where a name
    comes from is looked for in files that may be.
    """

    def __init__(self, diagnosis: Diagnosis, patch: Patch, disk: Disk) -> None:
        self._root, self._disk = patch.root, disk
        patches = (patch, *(change.patch for change in diagnosis.experiment_changes))
        self._hashes = {file.path: file.sha256 for patch in patches for file in patch.files}
        named = {site.file for one in every_finding(diagnosis).values() for site in one.where}
        self._wanted = named | set(self._hashes)
        self._now: dict[str, bytes] = {}
        self._original: dict[str, bytes] = {}
        self._wrong: dict[str, str] = {}

    def __call__(self, path: str) -> bytes:
        """Return the original bytes of a file, its present ones where they are lost."""
        if path not in self._now:
            try:
                now = self._disk.read(path)
            except OSError as error:
                if path in self._wanted:
                    self._wrong[self._name(path)] = f"cannot be read ({error.strerror})"
                raise
            original = self._found(path, now)
            if original is None:
                self._wrong[self._name(path)] = CHANGED
            self._now[path], self._original[path] = now, now if original is None else original
        return self._original[path]

    def wrong(self, expected: Mapping[str, bytes]) -> dict[str, str]:
        """Say by name which file is gone, or holds neither its original nor what is `expected`."""
        others = {
            self._name(path): CHANGED
            for path, now in self._now.items()
            if now != expected.get(path, self._original[path])
        }
        return {**self._wrong, **others}

    def changes(self, contents: Mapping[str, bytes]) -> Iterator[Change]:
        """Yield what is to be written so that files hold these bytes."""
        for path, data in sorted(contents.items()):
            if data != self._now[path]:
                yield Change(path, self._name(path), self._original[path], self._now[path], data)

    def _name(self, path: str) -> str:
        return os.path.relpath(os.path.realpath(path), self._root).replace(os.sep, "/")

    def _found(self, path: str, now: bytes) -> bytes | None:
        kept, wanted = self._disk.kept.get(path), self._hashes.get(path)
        if wanted is None:
            return now if kept is None and self._disk.untouched(path) else kept
        try:
            if kept is not None and is_notebook(path):  # it may have been run since: its outputs
                kept = Notebook(now).with_text(Notebook(kept).text)
            return next(
                (data for data in (now, kept) if data and hash_of(path, data) == wanted), None
            )
        except ValueError:  # no notebook any more, or one with other cells
            return None
