"""From findings to one patch; what could not be written is named with its reason."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, NotTaken, Patch, PatchedFile, Site
from trainperf.recording.cells import in_reason, is_notebook
from trainperf.rewrite.diff import changed_lines
from trainperf.rewrite.script import Reader, Script, default_reader
from trainperf.source.notebooks.notebook import as_run
from trainperf.source.scopes import FUNCTIONS, LOOPS
from trainperf.source.text import parsed

SEMANTICS = "changes the experiment (semantics): not in the default patch"
ALREADY = "the source has it already"


@dataclass(frozen=True)
class Written:
    """A patch, and the very bytes its files hold once it is applied.

    `contents` has them by absolute path, as the findings' sites name the file. Trials
    run these bytes, so that what is tried is what the patch does.
    """

    patch: Patch
    contents: dict[str, bytes]


@dataclass(frozen=True, eq=False)
class Edited:
    """A script as the repairs of some findings leave it, with the variables that they set.

    `diff` is for `git apply`, `shown` to be read.
    """

    script: Script
    diff: str = ""
    shown: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def plus(self, finding: Finding, fix: Fix | None) -> Edited:
        """Return it with one more repair; raises `CannotRewrite`."""
        if fix is None or not (finding.rewritable and (fix.rewrites or fix.sets_environment)):
            raise CannotRewrite("no edit can be written for it here")
        script = self.script.copy()
        try:
            if fix.rewrites:
                fix.write(script, finding)
            added = fix.environment(finding)
            diff, shown = script.diff(), script.shown()
        except CannotRewrite:
            raise
        except Exception as error:  # a fix gone wrong must not cost the report
            raise CannotRewrite(f"the rewrite failed: {type(error).__name__}: {error}") from error
        for name, value in added.items():
            if self.environment.get(name, value) != value:
                raise CannotRewrite(f"another fix sets {name} to {self.environment[name]}")
        environment = {**self.environment, **added}
        same = (diff, environment) == (self.diff, self.environment)
        if same and script.options == self.script.options:
            raise CannotRewrite(ALREADY)
        return Edited(script, diff, shown, environment)


class Edits:
    """The edits of findings, in the user's files under `root`: each is made once.

    Each file is read once, too: what is shown, tried and written is the same to the byte.
    """

    def __init__(
        self, root: str | Path, fixes: Mapping[str, Fix], read: Reader = default_reader
    ) -> None:
        self._fixes, self._read = fixes, cache(read)
        self._none = Edited(Script(root, self._read))
        self._made: dict[tuple[object, ...], Edited] = {}

    def of(self, finding: Finding, before: Edited | None = None) -> Edited:
        """Return the edit of a finding, on top of those `before`; raises `CannotRewrite`."""
        before = before or self._none
        key = (before, finding.id, finding.where, finding.rewritable, repr(finding.data))
        if key not in self._made:
            self._made[key] = before.plus(finding, self._fixes.get(finding.id))
        return self._made[key]

    def write(self, findings: Sequence[Finding], only: Collection[str] | None = None) -> Written:
        """Write the edits of all rewritable findings, first come first served; never raises.

        A finding whose edit does not go together with those before it is skipped, as is
        one that changes the experiment. With `only`, just the findings of these ids are written,
        such as change the experiment as well, in that order.
        """
        edit, taken, skipped = self._none, list[Finding](), list[NotTaken]()
        wanted = [finding for finding in findings if finding.rewritable]
        if only is not None:
            wanted = [one for id_ in dict.fromkeys(only) for one in findings if one.id == id_]
        for finding in wanted:
            try:
                if finding.equivalence is Equivalence.SEMANTICS and only is None:
                    raise CannotRewrite(SEMANTICS)
                for other in taken:
                    for one, beside in ((finding, other), (other, finding)):
                        fix = self._fixes.get(one.id)
                        if fix is not None and (reason := fix.clashes(one, beside)):
                            raise CannotRewrite(reason)
                edit = self.of(finding, edit)
                taken.append(finding)
            except CannotRewrite as error:
                notebook = any(is_notebook(site.file) for site in finding.where)
                reason = in_reason(error.reason) if notebook else error.reason
                skipped.append(NotTaken(finding.id, reason))
        script = edit.script
        named = {site.file for finding in findings for site in finding.where}
        patch = Patch(
            diff=edit.diff,
            findings=tuple(dict.fromkeys(finding.id for finding in taken)),
            skipped=tuple(skipped),
            root=script.root,
            files=tuple(self._hashes({*named, *script.originals()})),
            environment=edit.environment,
            arguments=script.arguments,
            cells=edit.shown if edit.shown != edit.diff else "",
        )
        return Written(patch, script.contents())

    def _hashes(self, paths: Iterable[str]) -> Iterator[PatchedFile]:
        for path in sorted(paths):
            with contextlib.suppress(OSError, ValueError):
                yield PatchedFile(path, hash_of(path, self._read(path)))

    def lines(self, finding: Finding) -> str:
        """Return the lines that a finding's edit adds or changes, dedented, "..." between places.

        '' where it has no edit of its own, or a long one; never raises.
        """
        try:
            return _added_lines(self.of(finding).shown)
        except CannotRewrite:
            return ""


MOST_LINES = 24
"""An edit of more lines than this is better read in the patch."""


_CHANGED = re.compile(r"(?:^(?:\+(?!\+\+ )|-(?!-- )).*\n)+", re.MULTILINE)


def _added_lines(diff: str) -> str:
    parts = []
    for place in _CHANGED.findall(diff):
        lines = [line[1:] for line in place.splitlines() if line.startswith("+")]
        text = textwrap.dedent("\n".join(lines)).strip("\n")
        last = text.rpartition("\n")[2]
        rest = last[: len(last) - len(last.lstrip())] + "    ..." if text.endswith(":") else "..."
        parts += [text, rest] if text.strip() else []
    text = "\n".join(parts).removesuffix("\n...")
    return text if text.count("\n") < MOST_LINES else ""


def hash_of(path: str, data: bytes) -> str:
    """Return the SHA-256 of a file in hexadecimal, of a notebook that of its code.

    Raises `ValueError` for what is no notebook.
    """
    return hashlib.sha256(as_run(path, data)).hexdigest()


def changed(file: str, after: Mapping[str, bytes], read: Reader) -> frozenset[int]:
    """The lines of a source, of a notebook those of its cells, that are others `after` a patch."""
    before = read(file)
    return changed_lines(parsed(file, before).text, parsed(file, after.get(file, before)).text)


def answered(
    findings: Iterable[Finding], after: Mapping[str, bytes], training: Site | None, read: Reader
) -> tuple[Finding, ...]:
    """The findings all of whose places are edited in the files as they are `after` a patch.

    A place is where its statement is changed, or the innermost loop around it: but for the loop
    that trains, at `training`, whose steps hold all that is left to be found.
    """

    def edits(place: Site) -> bool:
        try:
            there = changed(place.file, after, read)
            return bool(there and there & _lines_around(place, training, read))
        except (OSError, ValueError, CannotRewrite):
            return False

    return tuple(one for one in findings if one.where and all(map(edits, one.where)))


def _lines_around(place: Site, training: Site | None, read: Reader) -> set[int]:
    """The lines of the innermost statement, its head where it holds others, and of the loop."""
    source = parsed(place.file, read(place.file))
    inner, _ = source.statement(place)
    body, around = getattr(inner, "body", None), [inner, *source.module.loops(inner)]
    end = body[0].lineno - 1 if body else inner.end_lineno or inner.lineno
    lines = set(range(inner.lineno, end + 1))
    if isinstance(inner, (*FUNCTIONS, ast.ClassDef)):
        return lines
    for loop in [node for node in around if isinstance(node, LOOPS)][:1]:
        held = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
        if training is not None and not (training.file == place.file and training.line in held):
            lines |= set(held)
    return lines
